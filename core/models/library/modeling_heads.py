"""Heads that files of encoders write each anew, with the losses of transformers 5.23; transformers has no such file."""
from dataclasses import dataclass

from torch.nn import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss

from transformers.releases import refuse
from transformers.utils.generic import ModelOutput, can_return_tuple


@dataclass
class HeadOutput(ModelOutput):
    loss: object = None
    logits: object = None
    end_logits: object = None


def class_of(model, stage, architecture):
    """The class that a stage trains; of an encoder without one that which config.json names, else the masked language model."""
    if stage == "value":
        from transformers.llama_factory.value_head import valued

        return valued(model)
    if not hasattr(model, "heads"):
        from transformers.modeling_scores import scored

        return scored(model, stage)
    if stage and stage not in model.heads:
        refuse("/training/stage", f"{stage} of this model is not modelled yet")
    for head in model.heads.values():
        if not stage and head.__name__ == architecture:
            return head
    return model.heads[stage or "masked_lm"]


def labelled_loss(config, logits, labels):
    """By problem_type, as *ForSequenceClassification decides it."""
    if config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1):
        return MSELoss()(logits.squeeze(), labels.squeeze()) if config.num_labels == 1 else MSELoss()(logits, labels)
    if config.problem_type == "multi_label_classification":
        return BCEWithLogitsLoss()(logits, labels)
    return CrossEntropyLoss()(logits.view(-1, config.num_labels), labels.view(-1))


class SequenceHead:
    """First among the bases of a class; classify() makes logits of what the encoder returned."""

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.base_model(input_ids, attention_mask=attention_mask, **kwargs)
        logits = self.classify(outputs)
        loss = None
        if labels is not None:
            loss = labelled_loss(self.config, logits, labels)
        return HeadOutput(loss=loss, logits=logits)


class TokenHead:
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.base_model(input_ids, attention_mask=attention_mask, **kwargs)
        sequence_output = outputs[0]
        sequence_output = self.dropout(sequence_output)
        logits = self.classifier(sequence_output)
        loss = None
        if labels is not None:
            loss = CrossEntropyLoss()(logits.view(-1, self.config.num_labels), labels.view(-1))
        return HeadOutput(loss=loss, logits=logits)


class QuestionHead:
    def before_outputs(self, hidden_states):
        return hidden_states

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, start_positions=None, end_positions=None, **kwargs):
        outputs = self.base_model(input_ids, attention_mask=attention_mask, **kwargs)
        sequence_output = self.before_outputs(outputs[0])
        logits = self.qa_outputs(sequence_output)
        start_logits, end_logits = logits.split(1, dim=-1)
        start_logits = start_logits.squeeze(-1).contiguous()
        end_logits = end_logits.squeeze(-1).contiguous()
        total_loss = None
        if start_positions is not None and end_positions is not None:
            length = start_logits.size(1)
            start_positions = start_positions.clamp(0, length)
            end_positions = end_positions.clamp(0, length)
            start_loss = CrossEntropyLoss(ignore_index=length)(start_logits, start_positions)
            end_loss = CrossEntropyLoss(ignore_index=length)(end_logits, end_positions)
            total_loss = (start_loss + end_loss) / 2
        return HeadOutput(loss=total_loss, logits=start_logits, end_logits=end_logits)


class MaskedHead:
    """predict() makes logits of the last hidden states."""

    def masked_loss(self, logits, labels, **kwargs):
        return CrossEntropyLoss()(logits.view(-1, self.config.vocab_size), labels.view(-1))

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.base_model(input_ids, attention_mask=attention_mask, **kwargs)
        prediction_scores = self.predict(outputs[0])
        loss = None
        if labels is not None:
            loss = self.masked_loss(prediction_scores, labels, **kwargs)
        return HeadOutput(loss=loss, logits=prediction_scores)
