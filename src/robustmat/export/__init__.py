"""Take a checkpoint out of torch: ONNX files, their manifest, and the check that they decide alike.

`runtime` and `manifest` need no torch; `parts`, `write` and `quantize` make the files.
"""
