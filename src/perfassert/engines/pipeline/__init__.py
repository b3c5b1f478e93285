"""The pipeline engine: the pipeline performance model (Cornelis, Lemeire), whole."""
