"""How large the experiments are: as in the papers, or small enough for a minute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """All sizes of all experiments; a period is what the papers call evaluation every 5 seconds.

    `settling` is how many periods the generator runs before anything is counted: at first all
    objects stand at nodes of the network.
    """

    name: str
    objects: int
    queries: int
    settling: int
    periods: int
    pipeline_objects: int
    pipeline_ticks: int
    delay_objects: int
    delay_queries: int
    delay_seconds: float
    rates: tuple[int, ...]
    spark_rates: tuple[int, ...]
    spark_seconds: float
    selectivity_objects: int
    selectivity_periods: int
    cache_objects: int
    cache_queries: int
    cache_seconds: int
    growth_objects: int
    rule_queries: tuple[int, ...]
    rule_few: int
    rule_middle: int
    rule_batch: int
    rule_wide_batch: int
    rule_batches: tuple[int, ...]
    rule_singles: int
    window_sizes: tuple[int, ...]
    window_queries: tuple[int, ...]
    window_arrivals: int
    trigger_events: int
    trigger_few: int
    trigger_verbosities: tuple[float, ...]
    trigger_counts: tuple[int, ...]
    trigger_seconds: tuple[int, ...]
    trigger_variables: tuple[int, ...]


FULL = Size(
    name="full",
    objects=100_000,
    queries=100_000,
    settling=240,
    periods=5,
    pipeline_objects=20_000,
    pipeline_ticks=10,
    delay_objects=100_000,
    delay_queries=1_000,
    delay_seconds=4.0,
    rates=(1_000, 2_000, 4_000, 10_000, 20_000, 50_000, 100_000, 200_000),
    spark_rates=(2_000, 20_000, 100_000, 200_000),
    spark_seconds=8.0,
    selectivity_objects=10_000,
    selectivity_periods=300,
    cache_objects=400,
    cache_queries=20,
    cache_seconds=20,
    growth_objects=20_000,
    rule_queries=(10_000, 20_000, 50_000, 100_000),
    rule_few=10_000,
    rule_middle=50_000,
    rule_batch=10_000,
    rule_wide_batch=3_000,
    rule_batches=(2_000, 4_000, 6_000, 8_000, 10_000),
    rule_singles=100,
    window_sizes=(100, 1_000, 10_000),
    window_queries=(1_000, 10_000, 50_000, 100_000),
    window_arrivals=6,
    trigger_events=100_000,
    trigger_few=5,
    trigger_verbosities=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
    trigger_counts=(5, 10, 25, 50, 100, 250, 1_000),
    trigger_seconds=(300, 600, 1_200, 2_400, 4_800),
    trigger_variables=(2, 3, 4, 5),
)

QUICK = Size(
    name="quick",
    objects=10_000,
    queries=10_000,
    settling=60,
    periods=3,
    pipeline_objects=400,
    pipeline_ticks=4,
    delay_objects=10_000,
    delay_queries=100,
    delay_seconds=1.0,
    rates=(2_000, 20_000, 200_000),
    spark_rates=(),
    spark_seconds=0.0,
    selectivity_objects=1_000,
    selectivity_periods=60,
    cache_objects=200,
    cache_queries=8,
    cache_seconds=4,
    growth_objects=3_000,
    rule_queries=(2_000, 10_000),
    rule_few=2_000,
    rule_middle=5_000,
    rule_batch=1_000,
    rule_wide_batch=500,
    rule_batches=(500, 1_000, 2_000),
    rule_singles=50,
    window_sizes=(100, 1_000),
    window_queries=(1_000, 5_000),
    window_arrivals=4,
    trigger_events=6_000,
    trigger_few=3,
    trigger_verbosities=(0.005, 0.05),
    trigger_counts=(2, 10),
    trigger_seconds=(600, 1_200),
    trigger_variables=(2, 3),
)
