from transformers.utils import *
from transformers.utils import __getattr__
