/* config_bad_rules.h — job files with contradictions in their ensembles: rules between options of
 * model and train, and sweeps. */
#ifndef TT_CONFIG_BAD_RULES_H
#define TT_CONFIG_BAD_RULES_H
#include "tests/unit/config/config_bad_case.h"

#define MIX DATA "ensembles: [{name: a, networks: [{}, "
#define IMAGE "model: {image: [1, 8, 8], front: "

static const tt_bad bad_rules[] = {
    BAD(JOB IMAGE "[conv 16 3, konv 8 3]}\n",
        "3:34: model.front[1]: 'konv 8 3': 'konv 8 3' is not a layer, one of conv, group_norm, "
        "pool"),
    BAD(JOB IMAGE "[pool max 2, pool max 2, pool max 4]}\n",
        "3:34: model.front[2]: 'pool max 4': height 2 + 2 * pad 0 = 2 is smaller than the window: "
        "dilation 1 * (size 4 - 1) + 1 = 4"),
    BAD(JOB IMAGE "[conv 6 3 groups 3]}\n",
        "model.front[0]: 'conv 6 3 groups 3': 3 groups do not divide the 1 input channels"),
    BAD(JOB IMAGE "[conv 6 3, residual 1, conv 7 3]}\n",
        "model.front[1]: 'residual 1': the input of these layers is 6 x 8 x 8, their output 7 x 8 "
        "x "
        "8"),
    BAD(JOB IMAGE "[conv 6 3 strides 2]}\n",
        "'strides' does not belong here; write conv CHANNELS SIZE [stride N]"),
    /* all rows, as far as the shape before them is known */
    BADS(3, JOB IMAGE "[conv 4 3, relu, conv 4 x, residual 9]}\n",
         "front[1]: 'relu': 'relu' is not a layer, one of conv, ",
         "front[2]: 'conv 4 x': 'x' is not"),
    BADS(3, JOB IMAGE "[conv 6 3 groups 4, conv 6 3 groups 5, pool max 9, conv 7 3 groups 2]}\n",
         "front[0]: 'conv 6 3 groups 4': 4 groups do not divide the 1 input channels",
         "front[1]: 'conv 6 3 groups 5': 5 groups", "front[2]: 'pool max 9': height 8"),
    BAD(JOB "model: {image: [1, 8, 8]}\n", "3:16: model.image needs model.front"),
    BAD(JOB "model: {front: [conv 4 3]}\n", "3:16: model.front needs model.image"),
    BAD(JOB "model: {image: [8, 8], front: [conv 4 3]}\n",
        "3:16: model.image: 2 numbers; write [channels, height, width]"),
    BAD(JOB "model: {image: [1, 8, 8], profile: [1, 64], front: [conv 4 3]}\n",
        "3:36: model.profile and model.image are both given"),
    BAD(JOB "model: {hidden: [8, 8]}\ntrain: {layer_rates: [0.1, 1]}\n",
        "4:22: train.layer_rates: 2 factors, but the network has 3 layers with the output layer"),
    BAD("data: {file: d.h5, sigma: s}\nensembles: [{name: a}]\ntrain: {init_from: m.h5}\n",
        "3:20: train.init_from and data.sigma cannot be used together"),
    BADS(2, JOB "train: {init_member: 0, init_layers: 1}\n",
         "3:22: train.init_member needs train.init_from", "3:38: train.init_layers needs train"),
    BAD(JOB "train: {freeze: 4}\n",
        "3:17: train.freeze: all 4 layers would keep their weights; leave one to train"),
    BAD(JOB "model: {hidden: [8]}\ntrain: {freeze: 1, layer_rates: [1, 0]}\n",
        "4:33: train.layer_rates: all 2 layers would keep their weights"),
    BAD(JOB IMAGE "[conv 6 3, pool max 2], hidden: [4]}\ntrain: {layer_rates: [0, 1, 1]}\n",
        "4:22: train.layer_rates: 3 factors, but the network has 4 layers"),
    BAD(JOB "train: {optimizer: rmsprop, momentum: 0.5, nesterov: true}\n",
        "3:54: train.nesterov is for optimizer sgd, but train.optimizer is rmsprop (line 3)"),
    BAD(DATA "ensembles: [{name: a, train: {momentum: 0.5}}, {name: b}]\n",
        "2:41: ensembles[0].train.momentum is for optimizers sgd and rmsprop"),
    BAD(DATA "ensembles: [{name: a}, {name: b}]\ntrain: {momentum: 0.5}\n",
        "3:19: train.momentum is for optimizers sgd and rmsprop"),
    BAD(JOB "model: {quantiles: [0.5, 0.1]}\n",
        "3:20: model.quantiles[1]: 0.1; levels must ascend and be between 0 and 1"),
    BAD(JOB "model: {quantiles: [0, 0.5]}\n", "3:20: model.quantiles[0]: 0; levels must ascend"),
    BAD(JOB "model: {quantiles: []}\n", "3:20: model.quantiles: 0 levels; 1 to 32"),
    BAD(JOB "model: {quantiles: [0.5, x]}\n", "3:26: model.quantiles[1]: 'x' is not a number"),
    BAD(JOB "model: {quantiles: 0.5}\n", "3:20: model.quantiles: expected a list; write it in"),
    BAD(JOB "train: {schedule_milestones: [4, 8]}\n",
        "3:30: train.schedule_milestones is for schedule multistep, but train.schedule is cosine "
        "(the d"),
    BAD(JOB "train: {schedule: multistep, schedule_milestones: [4, 8, 8]}\n",
        "3:51: train.schedule_milestones[2]: 8 after 8; milestones must ascend"),
    BAD(JOB "train: {schedule: multistep}\n",
        "3:19: train.schedule: multistep needs train.schedule_milestones"),
    BAD(JOB "train: {epochs: 300, average: swa, average_start: 300}\n",
        "train.average_start: 300 must be less than train.epochs (300)"),
    BADS(
        3,
        DATA "ensembles: [{name: a, train: {optimizer: sgd}, sweep: {beta1: {choice: [0, 0.5]}, "
             "schedule_gamma: {choice: [0, 0.5]}, average_decay: {choice: [0, 0.5]}}}]\n",
        "ensembles[0].sweep.beta1: has no effect with train.optimizer: sgd (line 2)",
        "ensembles[0].sweep.schedule_gamma: has no effect with train.schedule: cosine (the default",
        "ensembles[0].sweep.average_decay: has no effect with train.average: none (the default)"),
    BAD(JOB "run: {stages: 4}\n",
        "3:15: run.stages: 4 with 1 part: a stage would wait 75 % of the time for the others; set "
        "train.parts to 4 or more, or remove run.stages"),
    BAD(JOB "run: {exchange: device, device: cpu}\n",
        "3:17: run.exchange: device needs a GPU, but run.device is cpu; use host"),
    BAD(JOB "run: {exchange: nccl, stages: 2}\ntrain: {parts: 4}\n",
        "3:17: run.exchange: nccl cannot be combined with run.stages"),
    BAD("data: {file: d.h5, split: {train: 0.8, validation: 0, test: 0.2}}\n"
        "ensembles: [{name: a}]\nsearch: {preset: good, folds: x}\n",
        "3:31: search.folds: 'x' is not a whole number"),
    BAD(JOB "search: {folds: 4}\n", "3:17: search: give a preset, budget or time"),
    BAD(JOB "search: {budget: 4}\ntrain: {patience: 3}\n",
        "3:18: search stops trials at its rungs: remove train.patience (ensemble a)"),
    BAD(JOB "search: {budget: 4, folds: 1}\ndata_split: 3\n", "4:1: unknown key 'data_split'"),
    BAD(JOB "search: {time: 1min, space: {train: {learn: {choice: [1]}}}}\n",
        "3:38: search.space.train: 'learn' is no option of train that can be searched"),
    BADS(3,
         JOB "search: {time: 1min, space: {train: {l2: {log_uniform: [0, 1]}, beta1: 3, "
             "batch_size: {choice: [0]}}}}\n",
         "search.space: train.l2: log_uniform needs a lowest value above 0",
         "search.space: train.beta1: expected one of {choice: [..]}",
         "train.batch_size: 0 is out of range"),
    BAD(JOB "search: {preset: good}\ntrain: {patience: 3}\n",
        "search stops trials at its rungs: remove train.patience"),
    BAD(JOB "train: {loss: bce, label_noise: 0.1}\n",
        "3:33: train.label_noise is for real-valued targets, but train.loss is bce (line 3)"),
    BAD(JOB "model: {hidden: [65536, 65536]}\ntrain: {batch_size: 32768, dropout: 0.1}\n",
        "4:37: train.dropout: 131072 hidden units times batch_size 32768 reach 2^32"),
    BAD(DATA "ensembles: [{name: a, train: {epoch: 3}}]\n",
        "2:31: unknown key 'epoch' in train of an ensemble; did you mean 'epochs'?"),
    BAD(DATA "ensembles: [{name: a, learning_rate: 0.1}]\n",
        "2:23: unknown key 'learning_rate' in an ensemble; did you mean 'train.learning_rate'?"),
    BAD(DATA "ensembles: [{name: a, train: {epochs: 3}, train: {epochs: 3}}]\n",
        "2:43: train is given twice; first in line 2"),
    BAD(JOB "train: {on_diverged: {retry: 3}}\n", "3:23: unknown key 'retry' in train.on_diverged"),
    BAD(DATA "ensembles: [{name: a, sweep: {hidden: {list: [1]}}}]\n",
        "2:31: ensembles[0].sweep: 'hidden' cannot be swept; options that can be swept: "
        "learning_rate, l2, ",
        "patience, epochs"),
    BAD(DATA "ensembles: [{name: a, sweep: {learning_rat: {uniform: [1, 2]}}}]\n",
        "2:31: ensembles[0].sweep: 'learning_rat' cannot be swept; did you mean 'learning_rate'? "
        "options that can be swept"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {uniform: [1, 2]}, l2: {uniform: [1, 3]}}}]\n",
        "2:54: ensembles[0].sweep.l2 is given twice; first in line 2"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {list: [0.1, 0.2, 0.3]}}}]\n",
        "2:31: ensembles[0].sweep.l2: list: length 3, but members is 5; give one value for each "
        "member"),
    BAD(DATA "ensembles: [{name: a, members: 6, sweep: {l2: {grid: [0.1, 0.2]}, beta1: {grid: [0, "
             "0.5]}}}]\n",
        "2:67: ensembles[0].sweep.beta1: grid: members (6) must be a multiple of the number of "
        "combinations (4)"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {uniform: [0.1]}}}]\n",
        "2:45: ensembles[0].sweep.l2: uniform takes two values, the lowest and the highest"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {uniform: [2, 1]}}}]\n",
        "2:45: ensembles[0].sweep.l2: uniform goes from the lowest to the highest value"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {log_uniform: [0, 1]}}}]\n",
        "2:49: ensembles[0].sweep.l2: log_uniform needs a lowest value above 0"),
    BAD(DATA "ensembles: [{name: a, sweep: {epochs: {choice: [3, 2.5]}}}]\n",
        "2:52: ensembles[0].sweep.epochs: choice[1]: '2.5' is not a whole number"),
    BAD(DATA "ensembles: [{name: a, sweep: {dropout: {uniform: [0, 1]}}}]\n",
        "2:54: ensembles[0].sweep.dropout: uniform[1]: 1 is out of range: 0 to 0.99"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {choice: [[1]]}}}]\n",
        "2:45: ensembles[0].sweep.l2: choice[0]: expected one value, found a list"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {choice: []}}}]\n",
        "2:44: ensembles[0].sweep.l2: choice: expected a list of 1 to 10000 values in brackets, "
        "found an empty"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: {normal: [0, 1]}}}]\n",
        "2:35: ensembles[0].sweep.l2: expected one of {list: [..]}, {grid: [..]}"),
    BAD(DATA "ensembles: [{name: a, sweep: {l2: 3}}]\n",
        "2:35: ensembles[0].sweep.l2: expected one of {list: [..]}, {grid: [..]}"),
    BAD(DATA "ensembles: [{name: a, sweep: 3}]\n",
        "2:30: ensembles[0].sweep: expected a mapping like {learning_rate: "),
    BAD(DATA "ensembles: [{name: a, sweep: {momentum: {choice: [0, 0.5]}}}]\n",
        "2:31: ensembles[0].sweep.momentum is for optimizers sgd and rmsprop, but train.optimizer "
        "is "
        "adam"),
    BAD_SET(JOB, "ensembles.a.sweep.l2={uniform: [1, 2, 3]}",
            "--set:1: ", "ensembles[0].sweep.l2: uniform takes two values"),
    /* combining and calibration */
    BAD("data: {file: d.h5, split: {validation: 0}}\nensembles: [{name: a}]\ncombine: {method: "
        "greedy}\n",
        "3:19: combine.method: greedy needs validation rows; give data.split.validation above 0"),
    /* components of the targets */
    BADS(3,
         "data: {file: d.h5, targets_pca: 3, partial_labels: use}\n"
         "ensembles: [{name: a, target: y}, {name: b, train: {loss: quantile}}, {name: c}]\n",
         "1:33: data.targets_pca is for all targets together: remove `target` and `targets` "
         "(ensemble "
         "a)",
         "1:33: data.targets_pca needs an output mean or mean_variance, for example train.loss: "
         "gaussian_nll (ensemble b)",
         "1:33: data.targets_pca needs all labels of a row, but data.partial_labels is use"),
    BAD("data: {file: d.h5, targets_pca: 3, sigma: s}\nensembles: [{name: a}]\n",
        "1:33: data.targets_pca does not know the error bars of data.sigma; remove one"),
    BAD("data: {file: d.h5, targets_pca: 3}\nensembles: [{name: a}]\ntrain: {init_from: m.h5}\n",
        "1:33: data.targets_pca and train.init_from cannot be used together"),
    BAD("data: {file: d.h5, split: {validation: 0}}\nensembles: [{name: a}]\n"
        "calibration: {recalibrate: all}\n",
        "3:28: calibration.recalibrate: all needs validation rows; give data.split.validation "
        "above 0"),
    BAD("data: {file: d.h5, split: {group: a, order: b}}\nensembles: [{name: a}]\n",
        "1:45: data.split.order and data.split.group are both given; keep one"),
    BAD("data: {file: d.csv, inputs: []}\nensembles: [{name: a}]\n",
        "1:29: data.inputs: 0 elements; 1 to 10000 are allowed"),
    BAD(JOB "calibration: {conformal: [0.9, 0.5]}\n", "3:26: ", "between 0 and 1, ascending"),
    BAD(JOB "calibration: {conformal: [0.5, 1]}\n", "calibration.conformal: 1: write levels"),
    BAD(JOB "calibration: {conformal: [0.9], recalibrate: none}\ntrain: {loss: cross_entropy}\n",
        "3:26: calibration.conformal: ensembles[0] has output softmax; prediction intervals are "
        "for "
        "mean"),
    BAD(JOB "calibration: {recalibrate: all}\ntrain: {loss: poisson}\n",
        "3:28: calibration.recalibrate: all: ensembles[0] has output rate; only mean"),
    BAD(JOB "calibration: {conformal: [0.5, 0.8]}\ntrain: {loss: quantile}\n",
        "3:26: calibration.conformal: 0.8 needs the levels 0.1 and 0.9 in model.quantiles"),
    BAD(DATA
        "ensembles:\n- {name: b}\n- name: a\n  networks:\n  - {}\n  - {train: {loss: poisson}}\n",
        "7:20: ensembles[1].networks[1]: train.loss differs from that of the first network (the "
        "default), but it must be the same for all networks of an ensemble: their predictions "
        "would "
        "not be the same quantities"),
    BAD(MIX "{train: {resample: kfold}}]}]\n",
        "2:57: ensembles[0].networks[1]: train.resample differs", "the same rows"),
    BAD(MIX "{train: {variance_floor: 1e-3}}]}]\ntrain: {loss: gaussian_nll}\n",
        "2:63: ensembles[0].networks[1]: train.variance_floor differs"),
    BAD(DATA "ensembles: [{name: a, model: auto, networks: [{}]}]\n",
        "2:36: ensembles[0]: `model: auto` is a list of networks itself"),
    BAD(DATA "ensembles: [{name: a, networks: [{model: auto}]}]\n",
        "2:42: model: expected a mapping of options like {image: []}, found a single value"),
    BAD("data: {file: d.h5, split: {validation: 0}}\nmodel: auto\nensembles: [{name: a}]\n",
        "2:8: combine.method: greedy needs validation rows"),
    BAD(DATA "model: auto\ntrain: {optimizer: sgd}\nensembles: [{name: a}]\n",
        "2:8: ensembles[0].train.weight_decay is for optimizers adamw and amsgrad, but "
        "train.optimizer is sgd (line 3)"),
    BAD(MIX "{label: 'a b'}]}]\n",
        "2:46: ensembles[0].label: 'a b': write 1 to 32 letters, digits and . _ -"),
    BAD(MIX "{target: y1}]}]\n",
        "2:39: ensembles[0].networks: 'target' belongs to the ensemble, not to one of its"),
    BAD(MIX "{modle: {}}]}]\n", "2:39: unknown key 'modle' in a network of an ensemble; did "),
    BAD(MIX "{train: {epoch: 5}}]}]\n",
        "2:47: unknown key 'epoch' in train of a network; did you mean 'epochs'?"),
    BAD(MIX "7]}]\n", "2:38: ensembles[0].networks[1]: expected a mapping like"),
    BAD(DATA "ensembles: [{name: a, networks: []}]\n",
        "2:23: ensembles[0].networks: expected a list of mappings", "found an empty one"),
    BAD(DATA "ensembles: [{name: a, members: 4, networks: [{}, {}]}]\n",
        "2:32: ensembles[0].members: the members are given in `networks`; remove it here"),
    BAD(MIX "{}], sweep: {l2: {list: [1, 2]}}}]\n",
        "ensembles[0].sweep.l2: list: length 2, but members is 10"),
    BAD_SET(MIX "{}]}]\n", "ensembles.a.networks[2].members=1",
            "no such network; write networks[i]"),
    BAD_SET(MIX "{}]}]\n", "ensembles.a.networks[1].target=y1", "--set:1",
            "'target' belongs to the ensemble, not to one of its networks"),
};
#endif
