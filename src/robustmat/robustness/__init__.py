"""How far matches hold when pixels change: stability of embeddings, certificates of decisions."""
