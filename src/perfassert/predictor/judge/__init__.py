"""What a simulated launch comes to: its values, their error bands, and how sure they are."""
