from torch.autograd import Function
