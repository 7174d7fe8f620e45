"""Moving objects on a road network."""
