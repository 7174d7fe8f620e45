"""The rules of the planner, one in each module: a plan in, an equivalent plan out."""
