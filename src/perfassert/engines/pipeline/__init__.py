"""The pipeline engine: the pipeline performance model of Cornelis and Lemeire."""
