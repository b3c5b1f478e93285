"""The instruction graph of a program for one launch."""
