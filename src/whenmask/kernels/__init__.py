"""The loops that draw a plan, compiled by numba, one module for each kind of mechanism: words in, indices out.

Only what runs once per value is here. Importing one of these modules imports numba (0.4 s), so only the batch
form of a mechanism does, at the moment a batch is drawn. Each kernel has a slow twin in plain Python in the tests.
"""
