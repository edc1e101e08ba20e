from torch import autocast

from . import autocast_mode
