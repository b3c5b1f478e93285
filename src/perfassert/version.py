"""The version of the package; the model's version moves with every change of a result."""

VERSION = "0.2.0"
MODEL_VERSION = "8"
