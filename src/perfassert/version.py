"""The version of the package; the model's version moves with every change of a result."""

VERSION = "0.4.5"
MODEL_VERSION = "16"
