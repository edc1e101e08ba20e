"""trl 1.16.0 experimental/gkd/gkd_trainer.py GKDTrainer on given completions: beta 0.5, temperature 1, a teacher of the student's config."""
import torch
import torch.nn.functional as F

from transformers.trl.loop import all_count, empty_cache, without_dropout
from transformers.trl.prepared import Prepared


def prepare(model, reference):
    without_dropout()
    return Prepared(model), Prepared(reference, policy=False)


def kl_div(input, target):
    """Loss.cpp, log_target, reduction none: the second factor is made first"""
    difference = target - input
    weights = torch.exp(target)
    return weights * difference


def generalized_jsd_loss(student_logits, teacher_logits, labels, beta, temperature, num_items_in_batch):
    student_logits = student_logits / temperature
    teacher_logits = teacher_logits / temperature
    student_log_probs = F.log_softmax(student_logits, dim=-1)
    teacher_log_probs = F.log_softmax(teacher_logits, dim=-1)
    beta = torch.tensor(beta, dtype=student_log_probs.dtype, device=student_log_probs.device)
    mixture_log_probs = torch.logsumexp(
        torch.stack([student_log_probs + torch.log(-beta), teacher_log_probs + torch.log(beta)]), dim=0)  # log1p(-beta)
    kl_teacher = kl_div(mixture_log_probs, teacher_log_probs)
    kl_student = kl_div(mixture_log_probs, student_log_probs)
    jsd = beta * kl_teacher + (1 - beta) * kl_student
    mask = all_count(labels != -100)
    jsd = jsd[mask]
    jsd_sum = jsd.sum()
    return jsd_sum / num_items_in_batch


def compute_loss(models, inputs, num_items_in_batch=1):
    model, teacher = models
    student_outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    with torch.no_grad():
        teacher_outputs = teacher(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                                  use_cache=teacher.model._uses_cache)  # nobody turns its own off
    shifted_student_logits = student_outputs.logits[:, :-1, :]
    shifted_teacher_logits = teacher_outputs.logits[:, :-1, :]
    shifted_labels = inputs["labels"][:, 1:]
    loss = generalized_jsd_loss(student_logits=shifted_student_logits, teacher_logits=shifted_teacher_logits, labels=shifted_labels, beta=0.5,
                                temperature=1.0, num_items_in_batch=num_items_in_batch)
    empty_cache()
    return loss
