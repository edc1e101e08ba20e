from transformers.models.auto.modeling_auto import *
from transformers.models.auto.configuration_auto import *
