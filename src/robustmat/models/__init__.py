"""RobustMat as configurable parts: solvers, vertex diffusion, graph diffusion, similarity, weights."""
