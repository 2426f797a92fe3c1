"""The lowest and the highest entry of an array."""

import numpy as np

# The methods `min` and `max` of an array call a function in Python first.
lowest_of = np.minimum.reduce
highest_of = np.maximum.reduce
