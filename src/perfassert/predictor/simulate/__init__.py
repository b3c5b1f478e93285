"""The one clock: a model of a launch → seconds."""
