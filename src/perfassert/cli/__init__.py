"""Commands of the command line, one module each, and the options that they share."""
