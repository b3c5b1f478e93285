"""The pytest plug-in, registered as ``perfassert``."""
