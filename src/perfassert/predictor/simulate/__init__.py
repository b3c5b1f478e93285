"""The one clock: from a model of a launch to seconds."""
