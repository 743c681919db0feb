"""Models as arms: scikit-learn, river and ONNX models, functions, endpoints; and how models are loaded.

May import: checks, errors.
Touches: model files, models (user code); for endpoints the network, the clock, and tokens of the environment.
"""
