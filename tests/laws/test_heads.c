/* test_heads.c — laws of heads (model.heads): a head trains as a member with the same trunk, the
 * trunk with the sum of the gradients of the heads; bits do not depend on threads, parts, calls and
 * restarts; heads become members. */
#include "tests/support/problem.h"

#include "core/model/heads.h"

enum { ROWS = 67, INPUTS = 3, HEADS = 5, EPOCHS = 3 };

/* One ensemble of `members` members. Case i has row i of the tables of losses and optimizers. */
static problem make(int i, int heads, int64_t members)
{
  const int64_t hidden[] = {9, 17};
  tt_loss loss = (tt_loss)(i % TT_LOSS_COUNT);
  tt_output output = tt_loss_output_head(loss);
  problem p = problem_make(ROWS, INPUTS, 1, 1, members, hidden, 2, TT_ACT_tanh, output);
  tt_model_shape shape = usual_shape(INPUTS, 1, hidden, 2, TT_ACT_tanh, output);
  shape.heads = heads;
  shape.layer_norm = i % 2;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.loss = loss;
  p.c.optimizer = (tt_optimizer)(i % TT_OPT_COUNT);
  p.c.batch_size = 20;
  p.c.max_epochs = EPOCHS;
  for (int64_t m = 0; m < members; m++) p.c.member[m].hyper.epochs = EPOCHS;
  return p;
}

/* Whether a way trains heads. */
static int suited(way variant)
{
  problem p = make(0, HEADS, 1);
  int trains = can(variant, &p.c);
  problem_free(&p);
  return trains;
}

/* Give member h of `one` the trunk and head h of member 0 of `many`. */
static void copy_heads(problem *many, problem *one)
{
  tt_state *src = problem_state(many, everyone(many)), *to = problem_state(one, everyone(one));
  for (int64_t h = 0; h < HEADS; h++)
    tt_model_copy_head(&many->c.model, h, TT_FIELD(src, weights),
                       TT_FIELD(to, weights) + h * to->params);
  TT_CHECK_OK(one->by.ops->load(one->engine, everyone(one), to));
  tt_state_destroy(&src);
  tt_state_destroy(&to);
}

/* A cohort of one member with HEADS heads, and one of HEADS members with the same random numbers
 * and the weights of a head each. */
static void start_pair(way variant, problem *many, problem *one)
{
  for (int64_t h = 0; h < HEADS; h++) {
    one->c.member[h].stream = many->c.member[0].stream;
    one->c.member[h].hyper = many->c.member[0].hyper;
  }
  problem_start(many, variant, everyone(many));
  problem_start(one, variant, everyone(one));
  copy_heads(many, one);
}

/* The trunk keeps its weights: heads are members to the bit, and the loss is their mean. */
static void heads_are_members(way variant, int i)
{
  static const double last[] = {0.0, 0.0, 1.0};
  problem many = make(i, HEADS, 1), one = make(i, 1, HEADS);
  TT_CHECK_OK(tt_model_set_rates(0, last, 3, &many.c.model));
  TT_CHECK_OK(tt_model_set_rates(0, last, 3, &one.c.model));
  start_pair(variant, &many, &one);
  problem_finish(&many, 1000);
  problem_finish(&one, 1000);
  tt_state *a = problem_state(&many, everyone(&many)), *b = problem_state(&one, everyone(&one));
  tt_state *heads = NULL;
  tt_cohort *members = NULL;
  TT_CHECK_OK(tt_heads_expand(&many.c, a, &members, &heads));
  TT_CHECK(members->members, ==, HEADS);
  TT_CHECK(heads->params, ==, b->params);
  double loss = 0.0;
  for (int64_t h = 0; h < HEADS; h++) {
    size_t bytes = (size_t)b->params * sizeof(float);
    TT_CHECK(memcmp(TT_FIELD(heads, weights) + h * b->params, TT_FIELD(b, weights) + h * b->params,
                    bytes),
             ==, 0);
    TT_CHECK(members->member[h].head, ==, h + 1);
    TT_CHECK(TT_FIELD(heads, status)[h], ==, TT_STATUS_finished);
    loss += (double)TT_FIELD(b, loss_validation)[h * EPOCHS + EPOCHS - 1] / HEADS;
  }
  TT_CHECK(fabs(TT_FIELD(a, loss_validation)[EPOCHS - 1] - loss), <=, 1e-6 * (1.0 + fabs(loss)));
  TT_CHECK(memcmp(TT_FIELD(b, weights), TT_FIELD(b, weights) + b->params,
                  (size_t)b->params * sizeof(float)),
           !=, 0);
  tt_state_destroy(&a);
  tt_state_destroy(&b);
  tt_state_destroy(&heads);
  tt_cohort_destroy(&members);
  problem_free(&many);
  problem_free(&one);
}

TT_TEST (a_head_trains_as_a_member_with_its_trunk) {
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < (int)TT_LOSS_COUNT || i < (int)TT_OPT_COUNT; i++)
      if (suited(*w) && has_turn(*w, i)) heads_are_members(*w, i);
}

/* One step of sgd: the trunk moves by the sum of what the heads alone would move it by. */
static double trunk_error(way variant, int i)
{
  problem many = make(i, HEADS, 1), one = make(i, 1, HEADS);
  tt_progress progress;
  double worst = 0.0, largest = 0.0;
  many.c.optimizer = one.c.optimizer = TT_OPT_sgd;
  many.c.member[0].hyper.learning_rate = 0x1p10f;
  start_pair(variant, &many, &one);
  tt_state *before = problem_state(&many, everyone(&many));
  TT_CHECK_OK(variant.ops->train(many.engine, 1, &progress));
  TT_CHECK_OK(variant.ops->train(one.engine, 1, &progress));
  tt_state *a = problem_state(&many, everyone(&many)), *b = problem_state(&one, everyone(&one));
  for (int64_t p = 0; p < many.c.model.layer[2].weight; p++) {
    double start = (double)TT_FIELD(before, weights)[p], sum = 0.0;
    for (int64_t h = 0; h < HEADS; h++)
      sum += (double)TT_FIELD(b, weights)[h * b->params + p] - start;
    worst = fmax(worst, fabs((double)TT_FIELD(a, weights)[p] - start - sum));
    largest = fmax(largest, fabs(sum));
  }
  tt_state_destroy(&before);
  tt_state_destroy(&a);
  tt_state_destroy(&b);
  problem_free(&many);
  problem_free(&one);
  return worst / largest;
}

TT_TEST (the_trunk_gets_the_sum_of_the_gradients_of_the_heads) {
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < (int)TT_LOSS_COUNT; i++)
      if (suited(*w) && has_turn(*w, i)) TT_CHECK(trunk_error(*w, i), <=, 1e-5);
}

static problem busy(int i)
{
  problem p = make(i, HEADS, 3);
  p.c.parts = i % 2 ? 3 : 1;
  for (int64_t m = 0; m < 3; m++) {
    p.c.member[m].hyper.dropout = m == 1 ? 0.2f : 0.0f;
    p.c.member[m].hyper.clip_norm = m == 2 ? 0.1f : 0.0f;
  }
  return p;
}

TT_TEST (bits_of_heads_depend_on_the_member_alone) {
  for (const way *w = every_way(); w->name; w++)
    for (int i = 0; i < 4; i++) {
      if (!suited(*w) || !has_turn(*w, i)) continue;
      way several = *w;
      several.use.threads = 2 + i % 2;
      several.use.share_flops = 1;
      problem p = busy(i), q = busy(i);
      tt_state *want = problem_run(&p, *w, everyone(&p), 1000);
      tt_state *got = problem_run(&q, several, (tt_slice){1, 1}, 2);
      same_member(want, got, 1, "threads that share a member with heads");
      tt_state_destroy(&want);
      tt_state_destroy(&got);
      problem_free(&p);
      problem_free(&q);
    }
}

/* Initial weights of a head have the bounds of a network with one head. */
TT_TEST (heads_begin_with_different_weights_of_the_same_size) {
  problem p = make(0, 200, 1), q = make(0, 1, 1);
  float *w = NULL, *one = NULL;
  double largest = 0.0, bound = 0.0;
  p.c.init = q.c.init = TT_INIT_glorot_uniform;
  TT_CHECK_OK(TT_ALLOC(w, p.c.model.params));
  TT_CHECK_OK(TT_ALLOC(one, q.c.model.params));
  tt_member_init_weights(&p.c, &p.c.member[0], 0, w);
  tt_member_init_weights(&q.c, &q.c.member[0], 0, one);
  const tt_layer *last = &p.c.model.layer[2];
  for (int64_t i = last->weight; i < last->bias; i++) largest = fmax(largest, fabs((double)w[i]));
  bound = sqrt(6.0 / (double)(last->in + p.c.model.outputs));
  TT_CHECK(largest, <=, bound);
  TT_CHECK(largest, >, 0.95 * bound);
  TT_CHECK(memcmp(w, one, (size_t)last->weight * sizeof *w), ==, 0); /* the same trunk */
  tt_free(w);
  tt_free(one);
  problem_free(&p);
  problem_free(&q);
}
