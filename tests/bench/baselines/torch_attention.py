"""The fused attentions that a baseline may use.

All take q [n, H, R, Dh] and k, v [n, H, N, Dh], and return the attention [n, H, R, Dh] and the
log-sum-exp of the scores [n, H, R] in float32. They can be compiled, and recorded into a CUDA graph.
"""

import torch


def exact(q, k, v):
    """For any floating-point type on the CPU, and float32 on a GPU; not timed there."""
    aten = torch.ops.aten
    if q.device.type == 'cpu':
        return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    out, lse = aten._scaled_dot_product_efficient_attention(q, k, v, None, True)[:2]
    return out, lse[..., :q.shape[2]]  # which is padded


def flash(q, k, v):
    """FlashAttention-2, a part of PyTorch."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[:2]


def cudnn(q, k, v):
    out, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)[:2]
    return out, lse.reshape(q.shape[:3])


def flash_4():
    """FlashAttention-4 (flash-attn-4 on PyPI), which the compiler of PyTorch takes as it is; None
    where it is not installed."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None

    # [n, R, H, Dh], as FlashAttention has its tensors.
    @torch.library.custom_op('chorale::flash_attention_4', mutates_args=())
    def attend(q: torch.Tensor, k: torch.Tensor,
               v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return flash_attn_func(q, k, v, return_lse=True)[:2]

    @attend.register_fake
    def _(q, k, v):
        del k, v
        n, rows, heads, _ = q.shape
        return q.new_empty(q.shape), q.new_empty((n, heads, rows), dtype=torch.float32)

    def attention(q, k, v):
        out, lse = attend(*(t.transpose(1, 2) for t in (q, k, v)))
        return out.transpose(1, 2), lse

    return attention


def timed():
    """Name -> attention of bfloat16 on a GPU."""
    all_of_them = {'FlashAttention-2': flash, 'cuDNN': cudnn, 'FlashAttention-4': flash_4()}
    return {name: attention for name, attention in all_of_them.items() if attention is not None}
