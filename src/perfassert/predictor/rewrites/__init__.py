"""Changes of what is predicted, carried out on code, graph, costs or launch."""
