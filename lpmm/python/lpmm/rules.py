"""The optimizers: torch's arguments and defaults, bitsandbytes' where torch has none, and the rule's settings that they are."""
from .optimizer import Optimizer, _as_number

_EXP = {"exp_avg": "momentum", "exp_avg_sq": "variance"}
_BUFFER = {"momentum_buffer": "momentum"}
_BETAS = {"betas": ("beta1", "beta2"), "eps": "epsilon"}


def _same(*names):
    return {name: name for name in names}


class Adam(Optimizer):
    rule, torch_names, settings = "adam", _EXP, {**_BETAS, **_same("update_clip")}
    arguments = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, update_clip=0.0)

    def _settings(self, group):
        if self.rule == "adam" and group.get("decoupled_weight_decay") and group["weight_decay"]:
            raise ValueError("the state is of an AdamW (decoupled_weight_decay), whose decay Adam does not have; take lpmm.AdamW")
        return super()._settings(group)


class AdamW(Adam):
    rule = "adamw"
    arguments = {**Adam.arguments, "weight_decay": 1e-2}


class SGD(Optimizer):
    rule, torch_names = "sgd", _BUFFER
    settings = _same("momentum", "dampening", "nesterov", "decoupled_decay")
    arguments = dict(lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, decoupled_decay=False)


class Lion(Optimizer):
    rule, torch_names, settings = "lion", {"exp_avg": "momentum"}, {"betas": ("beta1", "beta2")}
    arguments = dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0)


class LAMB(Optimizer):
    rule, torch_names = "lamb", _EXP
    settings = {**_BETAS, **_same("min_weight_norm", "max_weight_norm", "trust_clip", "adapt_vectors")}
    arguments = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, min_weight_norm=0.0, max_weight_norm=0.0,
                     trust_clip=False, adapt_vectors=False)


class LARS(Optimizer):
    rule, torch_names = "lars", _BUFFER
    settings = {"eps": "norm_epsilon", **_same("momentum", "nesterov", "trust_coefficient", "trust_clip", "adapt_vectors")}
    arguments = dict(lr=1.0, momentum=0.9, weight_decay=0.0, nesterov=False, trust_coefficient=1e-3, eps=1e-8, trust_clip=False,
                     adapt_vectors=False)


class LARSClip(Optimizer):
    """What bitsandbytes calls LARS."""

    rule, torch_names = "lars_clip", _BUFFER
    settings = {"max_unorm": "max_share", **_same("momentum", "adapt_vectors")}
    arguments = dict(lr=1e-2, momentum=0.9, weight_decay=0.0, max_unorm=0.02, adapt_vectors=False)


class RMSprop(Optimizer):
    rule, torch_names = "rmsprop", {"square_avg": "variance", "grad_avg": "slow_momentum", **_BUFFER}
    settings = {"eps": "epsilon", **_same("alpha", "momentum", "centered")}
    arguments = dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False)


class Adagrad(Optimizer):
    rule, torch_names, settings = "adagrad", {"sum": "variance"}, {"lr_decay": "learning_rate_decay", "eps": "epsilon"}
    arguments = dict(lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10)


class AdEMAMix(Optimizer):
    rule, torch_names = "ademamix", _EXP
    settings = {"betas": ("beta1", "beta2", "beta3"), "alpha": "slow_weight", "t_alpha": "slow_weight_warmup",
                "t_beta3": "beta3_warmup", "eps": "epsilon"}
    arguments = dict(lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=5.0, t_alpha=None, t_beta3=None, eps=1e-8, weight_decay=1e-2)


class AdamMini(Optimizer):
    rule, settings = "adam_mini", _BETAS
    arguments = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)


class AdamWFactored(Optimizer):
    rule, settings = "adamw_factored", _BETAS
    arguments = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2)


class Adafactor(Optimizer):
    """torch's arguments, and of transformers' beta1 (of a momentum of updates), scale_parameter and relative_step.

    eps[0] is added to squares; None: the floor that torch's has. A tensor of more dimensions is a matrix with a row for each index of
    the first one, where torch's has a stack of matrices.
    """

    rule = "adafactor"
    settings = {"beta2_decay": "decay_rate", "eps": ("epsilon1", "epsilon2"), "d": "clip_threshold",
                **_same("beta1", "scale_parameter", "relative_step")}
    arguments = dict(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, beta1=0.0, scale_parameter=True,
                     relative_step=True)

    def _settings(self, group):
        eps = group["eps"]
        if isinstance(eps, (list, tuple)):
            eps = tuple(2.0**-46 if e is None else e for e in eps)
        return super()._settings({**group, "beta2_decay": -_as_number("beta2_decay", group["beta2_decay"]), "eps": eps})


class Muon(Optimizer):
    """torch's arguments; ns_coefficients and eps are theirs. Hidden matrices take orthogonal steps; embeddings and heads (kind=) and
    vectors, which torch's refuses, take AdamW's, with betas and adamw_eps.
    """

    rule, torch_names = "muon", _BUFFER
    settings = {"adjust_lr_fn": "match_rms", "betas": ("beta1", "beta2"), "adamw_eps": "epsilon",
                **_same("momentum", "nesterov", "ns_steps", "adamw_rate_scale")}
    arguments = dict(lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7,
                     ns_steps=5, adjust_lr_fn=None, adamw_rate_scale=1.0, betas=(0.9, 0.95), adamw_eps=1e-8)

    def _settings(self, group):
        for name in ("ns_coefficients", "eps"):
            if (tuple(group[name]) if isinstance(group[name], list) else group[name]) != self.arguments[name]:
                raise ValueError(f"{name} is {group[name]}, but lpmm's Muon has {self.arguments[name]} alone")
        matches = {None: False, "original": False, "match_rms_adamw": True}
        if group["adjust_lr_fn"] not in matches:
            raise ValueError(f"adjust_lr_fn is {group['adjust_lr_fn']!r}, but must be one of {list(matches)}")
        return super()._settings({**group, "adjust_lr_fn": matches[group["adjust_lr_fn"]]})
