"""The pipeline on Spark: the only room that imports pyspark."""
