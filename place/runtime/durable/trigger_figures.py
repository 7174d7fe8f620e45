"""The figures of triggers for Prometheus, which a server and `place status` call by one name."""

TRIGGER_FIGURES = {
    "kept": ("trigger_readings", "gauge", "Readings kept, once for each variable of a trigger."),
    "matches": ("trigger_matches_total", "counter", "Matches found."),
    "alerts": ("trigger_alerts_total", "counter", "Alerts told."),
    "pairs": ("trigger_pairs_total", "counter", "Pairs of readings compared."),
}
"""What is counted of a trigger: the name of the figure, its kind, and what it tells."""
