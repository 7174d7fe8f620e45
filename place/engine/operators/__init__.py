"""The operators: one file each, all of the contract in `contract.py`."""
