"""Two reports → what has become faster and slower."""
