/* test_config_campaign.c — laws of the campaign sections of a job file: contradictions are rejected
 * with their place and a remedy; the options are equal after a round trip. */
#include "core/base/mem.h"
#include "tests/support/check.h"
#include "tests/unit/config/config_bad_case.h"
#include "tests/unit/config/config_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cases continue in line 4; those that need another pool or oracle, in line 3. */
#define POOL JOB "pool: {file: p.h5}\n"
#define CAMPAIGN DATA "ensembles: [{name: a}]\nlabel: {command: [f]}\npool: {file: p.h5}\n"
#define OTHER(ensembles) DATA ensembles "\npool: {file: p.h5}\nlabel: {command: [f]}\n"

static const tt_bad bad[] = {
    BAD(JOB "label: {command: [f]}\n",
        "1:1: pool.file is missing: HDF5 file with the candidates; or give pool.command"),
    BAD_SET(CAMPAIGN, "pool.command=[g, '{output}']",
            "--set:1: 'pool.command=[g, '{output}']': pool.file and pool.command are both given"),
    BAD(JOB "pool: {command: [g], exclude: taken}\nlabel: {command: [f]}\n",
        "3:31: pool.exclude needs pool.file; with pool.command, the command must leave out these "
        "rows"),
    BAD(CAMPAIGN "train: {init_from: m.h5}\n",
        "5:20: train.init_from is for tutti train; in a campaign use campaign.warm_start"),
    BAD(JOB "pool: {file: d.h5}\nlabel: {command: [f]}\n",
        "3:14: pool.file: 'd.h5' is also data.file, so the candidates are the rows that data.split "
        "does not use, but train 0.8 + validation 0.1 + test 0.1 use all rows"),
    BAD("data: {file: d.csv, inputs: [a, b]}\nensembles: [{name: a}]\n"
        "pool: {file: d.csv}\nlabel: {command: [f]}\n",
        "3:14: pool.file: 'd.csv' is also data.file, so the candidates are the rows that"),
    BADS(
        2,
        JOB "pool: {command: [g, '--to={output}', '{modle}', '{print $1}', '${seed}{chunk}']}\n"
            "label: {command: [f, '{input}', '{outputs}']}\n",
        "3:17: pool.command: '{modle}' is not one of its placeholders: {output}, {model}, {round}, "
        "{chunk}, {seed}; put other text in braces into a script",
        "4:18: label.command: '{outputs}' is not one of its placeholders: {input}, {output}"),
    BAD(CAMPAIGN "score: {acquisition: bald}\n",
        "5:22: score.acquisition: bald does not fit ensembles[0], which has output mean; choose "
        "epistemic_std, relative_std, "),
    BAD(OTHER("ensembles: [{name: a}, {name: b, train: {loss: cross_entropy}}]"),
        "1:1: score.acquisition: epistemic_std does not fit ensembles[1], which has output "
        "softmax; "
        "choose "
        "disagreement, entropy, bald, vote_entropy or random"),
    BAD(CAMPAIGN "score: {target_reduction: weighted}\n",
        "5:27: score.target_reduction: weighted needs score.target_weights"),
    BAD(CAMPAIGN "score: {target_reduction: weighted, target_weights: [0, 0]}\n",
        "5:53: score.target_weights are all 0: no target would be used"),
    BAD(DATA "ensembles: [{name: a, targets: [u, v]}, {name: b, target: u}]\npool: {file: p.h5}\n"
             "label: {command: [f]}\nscore: {target_reduction: weighted, target_weights: [1, 2]}\n",
        "5:53: score.target_weights has length 2, but the number of targets of ensembles[1] is 1"),
    BAD(CAMPAIGN "score: {ensemble_reduction: weighted}\n",
        "5:29: score.ensemble_reduction: weighted needs score.weights"),
    BAD(CAMPAIGN "score: {ensemble_reduction: quota, weights: [1, 2]}\n",
        "5:45: score.weights has length 2, but the number of ensembles is 1"),
    BAD(CAMPAIGN "score: {ensemble_reduction: quota, weights: [0]}\n",
        "5:45: score.weights are all 0: no ensemble would be used"),
    BAD(CAMPAIGN "select: {lower: q1.5}\n",
        "5:17: select.lower: 'q1.5': write a score like 0.05, or a quantile from q0 to q1"),
    BAD(CAMPAIGN "select: {upper: high}\n", "5:17: select.upper: 'high': write a score"),
    BAD(CAMPAIGN "select: {lower: 0.2, upper: 0.1}\n",
        "5:29: select.upper: 0.1 is not above select.lower: 0.2; there would be no candidates"),
    BAD(CAMPAIGN "select: {lower: q0.9, upper: q0.9}\n", "5:30: select.upper: q0.9 is not"),
    BAD(CAMPAIGN "select: {method: kcenter, batch: 50, prefilter: 20}\n",
        "5:49: select.prefilter 20 is below select.batch 50"),
    BAD(POOL "label: {mode: command}\n",
        "4:15: label.mode: command needs label.command, e.g. [./label, '{input}', '{output}']"),
    BAD(POOL "select: {batch: 2}\n", "1:1: label.mode: command needs label.command"),
    BAD(POOL "label: {mode: hidden}\n", "4:15: label.mode: hidden needs pool.labels"),
    BAD(POOL "label: {mode: slurm, command: [f]}\n",
        "4:15: label.mode: slurm needs label.script, a file with #SBATCH lines"),
    BAD_SET(
        DATA "ensembles: [{name: a}]\npool: {file: p.h5}\n"
             "label: {command: [f], validation_fraction: 0.5}\n",
        "data.split.validation=0",
        "4:44: label.validation_fraction: 0.5, but the initial data have no validation rows; give "
        "data.split.validation above 0"),
    BAD(POOL "label: {command: [f], validation_fraction: 1}\n",
        "4:44: label.validation_fraction: 1: no new label would be used for training"),
    BAD(POOL "label: {command: [f], validation_fraction: 1.5}\n",
        "4:44: label.validation_fraction: 1.5 is out"),
    {2,
     CAMPAIGN "stop: {plateau_rounds: 3, change: 0.1}\n",
     "data.split.test=0",
     {"5:24: stop.plateau_rounds uses errors, which need test rows; give "
      "data.split.test above 0",
      "5:35: stop.change uses predictions"}},
    BAD(CAMPAIGN "stop: {accurate_fraction: 0.9}\n",
        "5:27: stop.accurate_fraction: 0.9 counts the candidates below select.lower; give "
        "select.lower too"),
    BAD(CAMPAIGN "stop: {accurate_fraction: 0.95}\nselect: {lower: q0.9}\n",
        "5:27: stop.accurate_fraction: 0.95; with select.lower: q0.9 the accurate fraction is 0.9 "
        "in "
        "every round; "
        "write select.lower as a score"),
    BAD_SET(CAMPAIGN, "data.weights=w",
            "data.weights cannot be used in a campaign: new labels have no weights"),
    BAD(OTHER("ensembles: [{name: a, rows: mine}]"),
        "2:29: ensembles[0].rows cannot be used in a campaign: new labels belong to no selection"),
    BAD(CAMPAIGN "campaign: {warm_start: params}\nmodel: {heads: 2}\n",
        "5:24: campaign.warm_start: params: ensembles[0] has model.heads: 2, and heads cannot be "
        "trained further as members; use none"),
    BAD(POOL "label: {mode: slurm, command: [f], script: s}\ncampaign: {directory: \"a\\nb\"}\n",
        "b': with label.mode: slurm the path must not have a control character"),
    BAD(POOL "label: {mode: slurm, command: [f], script: s}\ncampaign: {directory: 'a\"b'}\n",
        "a\"b': with label.mode: slurm the path must not have a quotation mark"),
    BAD(POOL "label: {mode: slurm, command: [f], script: s}\ncampaign: {directory: 'a\\b'}\n",
        "a\\b': with label.mode: slurm the path must not have a backslash; choose another"),
    BAD(CAMPAIGN "label: {mode: ask}\n", "5:1: label is given twice"),
    BAD(JOB "pool: {file: p.h5, labels: y}\nlabel: {mode: hidden}\n"
            "campaign: {mode: asynchronous}\n",
        "5:18: campaign.mode: asynchronous and label.mode: hidden cannot be used together"),
    BAD(CAMPAIGN "campaign: {mode: asynchronous}\nstop: {error: 0.1}\n",
        "6:15: stop.error draws its rows in the first round and cannot be used with "),
};

/* Options without effect: the message names the option, the option that it needs, and the line of
 * that one. */
static const tt_bad unused[] = {
    BAD(JOB "label: {command: [f]}\npool: {file: p.h5, labels: y}\n",
        "4:28: pool.labels has no effect with label.mode: command (the default)"),
    BAD_SET(POOL "label: {command: [f]}\n", "pool.chunks=3",
            "pool.chunks has no effect with pool.command: not given"),
    BAD(CAMPAIGN "score: {target_weights: [1]}\n",
        "5:25: score.target_weights has no effect with score.target_reduction: max"),
    BAD(CAMPAIGN "score: {weights: [1], ensemble_reduction: mean}\n",
        "5:18: score.weights has no effect with score.ensemble_reduction: mean (line 5)"),
    BADS(2, CAMPAIGN "score: {floor: 0.2, kappa: 3}\n",
         "score.floor has no effect with score.acquisition: epistemic_std",
         "score.kappa has no effect"),
    BAD(CAMPAIGN "score: {acquisition: total_std, goal: minimize}\n",
        "score.goal has no effect with score.acquisition: total_std (line 5)"),
    BADS(3, CAMPAIGN "select: {method: top, prefilter: 50, length_scale: 1, temperature: 0.5}\n",
         "select.prefilter has no effect with select.method: top", "select.length_scale has",
         "select.temperature has"),
    BADS(3, POOL "label: {mode: ask, command: [f], concurrency: 2, timeout: 2h}\n",
         "4:29: label.command has no effect with label.mode: ask (line 4)",
         "label.concurrency has no", "label.timeout has no"),
    BADS(2, CAMPAIGN "train: {when: {share: 0.1, wait: 1min}}\n",
         "5:23: train.when.share has no effect with campaign.mode: rounds (the default)",
         "train.when.wait has no effect"),
    BAD(POOL "label: {command: [f], script: s.sh}\n",
        "label.script has no effect with label.mode: command"),
    BAD(CAMPAIGN "stop: {accurate_rounds: 3}\n",
        "stop.accurate_rounds has no effect with select.lower: not given"),
    BAD(CAMPAIGN "stop: {plateau_delta: 0.1}\n",
        "stop.plateau_delta has no effect with stop.plateau_rounds: 0 (the default)"),
    BAD(CAMPAIGN "stop: {change_rounds: 4}\n",
        "stop.change_rounds has no effect with stop.change: 0"),
};

TT_TEST (every_contradiction_is_reported_with_its_place) {
  check_bad(bad, sizeof bad / sizeof *bad);
  check_bad(unused, sizeof unused / sizeof *unused);
}

TT_TEST (a_threshold_is_a_score_or_a_quantile) {
  static const struct {
    const char *text;
    int good, quantile;
    double value;
  } all[] = {{"0.05", 1, 0, 0.05}, {"1e-3", 1, 0, 1e-3}, {"-2", 1, 0, -2.0}, {"+.5", 1, 0, 0.5},
             {"q0", 1, 1, 0.0},    {"q0.9", 1, 1, 0.9},  {"q1", 1, 1, 1.0},  {"q1e-1", 1, 1, 0.1},
             {"q", 0, 0, 0},       {"q1.01", 0, 0, 0},   {"q-0.1", 0, 0, 0}, {"Q0.9", 0, 0, 0},
             {"nan", 0, 0, 0},     {"inf", 0, 0, 0},     {"1e999", 0, 0, 0}, {"0.1x", 0, 0, 0},
             {" 0.1", 0, 0, 0},    {"q 0.9", 0, 0, 0},   {"0x1p3", 0, 0, 0}, {"90%", 0, 0, 0},
             {"-", 0, 0, 0},       {"qnan", 0, 0, 0}};
  tt_threshold t;
  TT_CHECK(tt_threshold_parse("", &t), ==, 1);
  TT_CHECK(t.given, ==, 0);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int good = tt_threshold_parse(all[i].text, &t);
    if (good != all[i].good) fprintf(stderr, "'%s'\n", all[i].text);
    TT_CHECK(good, ==, all[i].good);
    if (!good) continue;
    TT_CHECK(t.given, ==, 1);
    TT_CHECK(t.is_quantile, ==, all[i].quantile);
    TT_CHECK(t.value, ==, all[i].value);
  }
}

TT_TEST (thresholds_may_be_numbers_or_texts_of_yaml) {
  static const char *const lower[] = {"0.25", "'0.25'", "\"0.25\"", "25e-2"};
  for (size_t i = 0; i < sizeof lower / sizeof *lower; i++) {
    char set[64];
    const char *one = set;
    tt_threshold t;
    snprintf(set, sizeof set, "select.lower=%s", lower[i]);
    tt_config *c = must_parse(CAMPAIGN, &one, 1);
    TT_CHECK(tt_threshold_parse(c->select_lower, &t), ==, 1);
    TT_CHECK(t.value, ==, 0.25);
    round_trip(c);
    tt_config_destroy(&c);
  }
}

TT_TEST (arguments_of_a_command_are_read_back) {
  static const char *const wanted[] = {
      "./my label.sh", "{input}", "it's \"here\"", "a,b: #c", "-n", "10", "$HOME\n`x`", "\xC3\xA9"};
  tt_config *c = must_parse(POOL "label:\n  command: [./my label.sh, '{input}', 'it''s \"here\"',"
                                 " 'a,b: #c', -n, 10, \"$HOME\\n`x`\", \xC3\xA9]\n",
                            NULL, 0);
  TT_CHECK(c->label_command.count, ==, (int64_t)(sizeof wanted / sizeof *wanted));
  for (int i = 0; i < (int)c->label_command.count; i++)
    same_text(c->label_command.value[i], wanted[i]);
  round_trip(c);
  tt_config_destroy(&c);
  c = must_parse(POOL "label: {command: ./label}\n", NULL, 0);
  TT_CHECK(c->label_command.count, ==, 1);
  same_text(c->label_command.value[0], "./label");
  tt_config_destroy(&c);
}

TT_TEST (options_without_effect_from_set_are_accepted) {
  const char *const set[] = {"score.acquisition=random", "select.method=top",
                             "campaign.warm_start=none", "stop.plateau_rounds=0"};
  tt_config *c =
      must_parse(CAMPAIGN "score: {acquisition: confidence_bound, kappa: 3, goal: minimize}\n"
                          "select: {method: penalty, length_scale: 2}\n"
                          "campaign: {warm_start: params}\n"
                          "stop: {plateau_rounds: 3, plateau_delta: 0.2}\n",
                 set, 4);
  TT_CHECK(c->score_kappa, ==, 3.0); /* `random` is the baseline of any score */
  TT_CHECK(c->select_length_scale, ==, 0.5);
  TT_CHECK(c->stop_plateau_delta, ==, 0.01);
  round_trip(c);
  tt_config_destroy(&c);
}

TT_TEST (only_a_campaign_has_its_sections) {
  char *text = NULL;
  tt_config *c = must_parse(least_job, NULL, 0);
  TT_CHECK(c->campaign, ==, 0);
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  TT_CHECK(strstr(text, "pool:") == NULL, ==, 1);
  tt_free(text);
  tt_config_destroy(&c);
  c = must_parse(CAMPAIGN, NULL, 0);
  TT_CHECK(c->campaign, ==, 1);
  TT_CHECK(c->label_validation_fraction, ==, -1.0);
  TT_CHECK_OK(tt_config_to_yaml(c, &text));
  TT_CHECK_HAS(text, "\nlabel:\n");
  TT_CHECK_HAS(text, "  validation_fraction: auto\n");
  tt_free(text);
  round_trip(c);
  tt_config_destroy(&c);
}
