"""The things that PLACE speaks of: types, schemas, readings, shapes, deltas, space and time."""
