
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from transformers import PretrainedConfig


class C(PretrainedConfig):
    model_type = "h"

    def __init__(self, vocab_size=100, hidden_size=64, **kw):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(**kw)
if 1:
    if 1:
        if 1:
            if 1:
                if 1:
                    if 1:
                        if 1:
                            if 1:
                                if 1:
                                    if 1:
                                        if 1:
                                            if 1:
                                                if 1:
                                                    if 1:
                                                        if 1:
                                                            if 1:
                                                                if 1:
                                                                    if 1:
                                                                        if 1:
                                                                            if 1:
                                                                                if 1:
                                                                                    if 1:
                                                                                        if 1:
                                                                                            if 1:
                                                                                                if 1:
                                                                                                    if 1:
                                                                                                        if 1:
                                                                                                            if 1:
                                                                                                                if 1:
                                                                                                                    if 1:
                                                                                                                        if 1:
                                                                                                                            if 1:
                                                                                                                                if 1:
                                                                                                                                    if 1:
                                                                                                                                        if 1:
      