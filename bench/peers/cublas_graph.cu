/* cublas_graph.cu — the batched loop that a careful person writes: each product of all members in
 * one call of cuBLAS, bias, activation and Adam in kernels of their own, all steps of a case in one
 * CUDA graph. A rival of tutti that needs no Python.
 *
 *   cublas_graph --serve           commands as bench_engine --serve reads them
 *   cublas_graph DIR [PRECISION]   compare the case in DIR with its reference, and time it
 *   cublas_graph --check DIR       compare only
 *
 * It is timed only after its losses agree with reference.f8 (peers/reference.py), like the programs
 * of case.py. */
#include "bench/peers/cublas_graph_kernels.cuh"
#include "core/base/clock.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>
#include <jansson.h>
#include <string>
#include <vector>

namespace
{
enum { MOST_LAYERS = 4, MOST_CHECKED = 8, WORD_ROOM = 512, LINE_ROOM = 2048 };
enum { BLAS_WORKSPACE = 32 << 20 }; /* 32 MiB: NVIDIA's advice for sm_90 */
const double SHORTEST_CALL = 0.1;   /* seconds between two clock readings */

/* The case of a folder (bench/workload.h). */
struct problem {
  std::string name;
  int64_t members, rows, batch, params, steps, layers, checked;
  int64_t width[MOST_LAYERS + 1], weight_at[MOST_LAYERS], bias_at[MOST_LAYERS];
  int64_t check[MOST_CHECKED];
  double learning_rate, beta1, beta2, epsilon;
};

/* One prepared case. Parameters, gradients and Adam's moments are one array each: for every layer
 * W [M][out][in], then b [M][out]; each part starts at a multiple of four floats. */
struct loop {
  problem at;
  std::string precision;
  tt_dev dev;
  cublasHandle_t blas;
  void *workspace; /* of cuBLAS: captured calls allocate nothing */
  int64_t w_at[MOST_LAYERS], b_at[MOST_LAYERS], floats, bytes;
  std::vector<float> start; /* parameters before the first step */
  float *x, *y, *target, *loss, *correction, *w, *g, *m, *v;
  float *h[MOST_LAYERS + 1]; /* inputs and activations, [M][B][width] */
  float *delta[2];
  int32_t *order;
  int64_t *taken;
  cudaGraphExec_t graph;
  int64_t count; /* launches between two clock readings */
  double gap, prepare_s, warm_up_s;
};

/* The result of a call of cuBLAS. */
#define TRY_CUBLAS(...) TT_TRY(check_cublas((__VA_ARGS__), #__VA_ARGS__))
tt_err check_cublas(cublasStatus_t s, const char *call)
{
  if (s == CUBLAS_STATUS_SUCCESS) return TT_OK;
  return TT_FAIL(INTERNAL, "%s: %s: error %d of cuBLAS", tt_cuda_location(), call, (int)s);
}

/* the case */

tt_err read_file(const char *folder, const char *name, void *out, int64_t bytes)
{
  std::string path = std::string(folder) + "/" + name;
  FILE *f = fopen(path.c_str(), "rb");
  if (!f) return TT_FAIL(NOINPUT, "%s cannot be read", path.c_str());
  size_t got = fread(out, 1, (size_t)bytes, f);
  fclose(f);
  return (int64_t)got == bytes ? TT_OK : TT_FAIL(DATA, "%s is too short", path.c_str());
}

/* Numbers of a JSON array; returns how many, at most `most`. */
int64_t read_list(const json_t *head, const char *key, int64_t *out, int64_t most)
{
  const json_t *list = json_object_get(head, key);
  int64_t n = (int64_t)json_array_size(list);
  for (int64_t i = 0; i < n && i < most; i++)
    out[i] = json_integer_value(json_array_get(list, (size_t)i));
  return n < most ? n : most;
}

int64_t read_number(const json_t *head, const char *key)
{
  return json_integer_value(json_object_get(head, key));
}

tt_err read_problem(const char *folder, problem *p)
{
  std::string path = std::string(folder) + "/case.json";
  json_error_t why;
  json_t *head = json_load_file(path.c_str(), 0, &why);
  if (!head) return TT_FAIL(NOINPUT, "%s: %s", path.c_str(), why.text);
  const char *name = json_string_value(json_object_get(head, "workload"));
  p->name = name ? name : "";
  p->members = read_number(head, "members");
  p->rows = read_number(head, "rows");
  p->batch = read_number(head, "batch");
  p->params = read_number(head, "params");
  p->steps = read_number(head, "steps");
  p->layers = read_list(head, "widths", p->width, MOST_LAYERS + 1) - 1;
  p->checked = read_list(head, "checked", p->check, MOST_CHECKED);
  int64_t weights = read_list(head, "weight_at", p->weight_at, MOST_LAYERS);
  int64_t biases = read_list(head, "bias_at", p->bias_at, MOST_LAYERS);
  p->learning_rate = json_number_value(json_object_get(head, "learning_rate"));
  p->beta1 = json_number_value(json_object_get(head, "beta1"));
  p->beta2 = json_number_value(json_object_get(head, "beta2"));
  p->epsilon = json_number_value(json_object_get(head, "epsilon"));
  const char *activation = json_string_value(json_object_get(head, "activation"));
  int plain = activation && !strcmp(activation, "relu");
  json_decref(head);
  if (!plain) return TT_FAIL(UNAVAILABLE, "this program trains relu networks with mse only");
  if (p->members < 1 || p->steps < 1 || p->layers < 1 || p->checked < 1 || weights != p->layers ||
      biases != p->layers)
    return TT_FAIL(DATA, "%s is not a case of bench_engine --export", path.c_str());
  return TT_OK;
}

/* preparation */

int64_t to_four(int64_t n) { return (n + 3) / 4 * 4; }

/* From [M][P] to one part for each W and b. */
tt_err arrange(loop *l, const char *folder)
{
  const problem &p = l->at;
  for (int i = 0; i < p.layers; i++) {
    l->w_at[i] = l->floats;
    l->b_at[i] = l->w_at[i] + to_four(p.members * p.width[i] * p.width[i + 1]);
    l->floats = l->b_at[i] + to_four(p.members * p.width[i + 1]);
  }
  std::vector<float> flat((size_t)(p.members * p.params));
  l->start.assign((size_t)l->floats, 0.0f);
  TT_TRY(
      read_file(folder, "weights.f4", flat.data(), (int64_t)sizeof(float) * p.members * p.params));
  for (int64_t m = 0; m < p.members; m++)
    for (int i = 0; i < p.layers; i++) {
      int64_t weights = p.width[i] * p.width[i + 1], biases = p.width[i + 1];
      const float *src = &flat[(size_t)(m * p.params)];
      memcpy(&l->start[(size_t)(l->w_at[i] + m * weights)], src + p.weight_at[i],
             (size_t)weights * sizeof(float));
      memcpy(&l->start[(size_t)(l->b_at[i] + m * biases)], src + p.bias_at[i],
             (size_t)biases * sizeof(float));
    }
  return TT_OK;
}

/* Device array with the contents of a file. */
template <class T>
tt_err load(loop *l, const char *folder, const char *name, int64_t count, T **out)
{
  std::vector<T> host((size_t)count);
  TT_TRY(read_file(folder, name, host.data(), count * (int64_t)sizeof(T)));
  TT_TRY(tt_dev_alloc(out, count, name));
  return tt_dev_upload_sync(*out, host.data(), count, l->dev.stream);
}

tt_err allocate(loop *l, const char *folder)
{
  const problem &p = l->at;
  int64_t widest = 0, cells = p.members * p.batch;
  TT_TRY(load(l, folder, "x.f4", p.rows * p.width[0], &l->x));
  TT_TRY(load(l, folder, "y.f4", p.rows * p.width[p.layers], &l->y));
  TT_TRY(load(l, folder, "order.i4", p.members * p.steps * p.batch, &l->order));
  for (int i = 0; i <= p.layers; i++) {
    widest = p.width[i] > widest ? p.width[i] : widest;
    TT_TRY(tt_dev_alloc(&l->h[i], cells * p.width[i], "activations"));
  }
  for (float **one : {&l->delta[0], &l->delta[1]})
    TT_TRY(tt_dev_alloc(one, cells * widest, "gradients of activations"));
  for (float **one : {&l->w, &l->g, &l->m, &l->v})
    TT_TRY(tt_dev_alloc(one, l->floats, "parameters"));
  TT_TRY(tt_dev_alloc(&l->target, cells * p.width[p.layers], "targets"));
  TT_TRY(tt_dev_alloc(&l->loss, p.steps * p.members, "losses"));
  TT_TRY(tt_dev_alloc(&l->correction, 2, "bias correction"));
  return tt_dev_alloc(&l->taken, 1, "steps");
}

tt_err reset(loop *l)
{
  TT_TRY(tt_dev_zero(l->m, l->floats, l->dev.stream));
  TT_TRY(tt_dev_zero(l->v, l->floats, l->dev.stream));
  TT_TRY(tt_dev_zero(l->taken, 1, l->dev.stream));
  return tt_dev_upload_sync(l->w, l->start.data(), l->floats, l->dev.stream);
}

/* one step */

/* C = op(A) op(B) for every member, column-major as in cuBLAS: C is m x n. */
tt_err multiply(const loop *l, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
                int64_t k, const float *a, const float *b, float *c)
{
  const float one = 1.0f, zero = 0.0f;
  int64_t lda = op_a == CUBLAS_OP_N ? m : k, ldb = op_b == CUBLAS_OP_N ? k : n;
  TRY_CUBLAS(cublasSgemmStridedBatched(l->blas, op_a, op_b, (int)m, (int)n, (int)k, &one, a,
                                       (int)lda, m * k, b, (int)ldb, k * n, &zero, c, (int)m, m * n,
                                       (int)l->at.members));
  return TT_OK;
}

tt_err forward(const loop *l)
{
  const problem &p = l->at;
  for (int i = 0; i < p.layers; i++) {
    int64_t in = p.width[i], out = p.width[i + 1], cells = p.members * p.batch * out;
    TT_TRY(multiply(l, CUBLAS_OP_T, CUBLAS_OP_N, out, p.batch, in, l->w + l->w_at[i], l->h[i],
                    l->h[i + 1]));
    if (i == p.layers - 1) break;
    peer_activate_args args = {l->h[i + 1], l->w + l->b_at[i], cells, out, p.batch};
    TT_TRY(tt_launch(peer_activate, tt_grid_size(cells, PEER_THREADS), PEER_THREADS, 0,
                     l->dev.stream, args));
  }
  return TT_OK;
}

tt_err backward(const loop *l, float *loss)
{
  const problem &p = l->at;
  const int last = (int)p.layers - 1;
  float *d = l->delta[0], *below = l->delta[1];
  peer_output_args out = {
      l->h[p.layers], l->w + l->b_at[last], l->target, d, l->g + l->b_at[last], loss,
      p.batch,        p.width[p.layers]};
  TT_TRY(tt_launch(peer_output, (unsigned)p.members, PEER_THREADS, PEER_THREADS * sizeof(float),
                   l->dev.stream, out));
  for (int i = last; i >= 0; i--) {
    int64_t n_in = p.width[i], n_out = p.width[i + 1];
    TT_TRY(
        multiply(l, CUBLAS_OP_N, CUBLAS_OP_T, n_in, n_out, p.batch, l->h[i], d, l->g + l->w_at[i]));
    if (i == 0) break;
    TT_TRY(
        multiply(l, CUBLAS_OP_N, CUBLAS_OP_N, n_in, p.batch, n_out, l->w + l->w_at[i], d, below));
    peer_mask_args mask = {below, l->h[i], l->g + l->b_at[i - 1], p.batch, n_in};
    TT_TRY(tt_launch(peer_mask, dim3(tt_grid_size(n_in, PEER_TILE), (unsigned)p.members),
                     dim3(PEER_TILE, PEER_LINES), PEER_TILE * PEER_LINES * sizeof(float),
                     l->dev.stream, mask));
    float *used = d;
    d = below;
    below = used;
  }
  return TT_OK;
}

tt_err step(const loop *l, int64_t k)
{
  const problem &p = l->at;
  int64_t cells = p.members * p.batch * p.width[0];
  peer_gather_args rows = {
      l->x,      l->y,    l->order, l->h[0],    l->target,         l->taken, l->correction,
      p.members, p.batch, p.steps,  p.width[0], p.width[p.layers], k,        p.learning_rate,
      p.beta1,   p.beta2};
  TT_TRY(tt_launch(peer_gather, tt_grid_size(cells, PEER_THREADS), PEER_THREADS, 0, l->dev.stream,
                   rows));
  TT_TRY(forward(l));
  TT_TRY(backward(l, l->loss + k * p.members));
  peer_adam_args adam = {l->w,           l->g,           l->m,
                         l->v,           l->correction,  l->floats / 4,
                         (float)p.beta1, (float)p.beta2, (float)p.epsilon};
  return tt_launch(peer_adam, tt_grid_size(l->floats / 4, PEER_THREADS), PEER_THREADS, 0,
                   l->dev.stream, adam);
}

/* The first step of a program loads kernels and chooses algorithms, which must not be captured. */
tt_err capture(loop *l)
{
  TT_TRY(reset(l));
  TT_TRY(step(l, 0));
  TT_TRY(tt_stream_synchronize(l->dev.stream));
  TT_TRY(tt_graph_begin(l->dev.stream));
  tt_err e = TT_OK;
  for (int64_t k = 0; !e && k < l->at.steps; k++) e = step(l, k);
  peer_advance_args args = {l->taken, l->at.steps};
  if (!e) e = tt_launch(peer_advance, 1, 1, 0, l->dev.stream, args);
  tt_err ended = tt_graph_end(l->dev.stream, &l->graph);
  return e ? e : ended;
}

/* comparison, timing */

tt_err compare(loop *l, const char *folder)
{
  const problem &p = l->at;
  std::vector<double> want((size_t)(p.checked * p.steps));
  std::vector<float> got((size_t)(p.members * p.steps));
  TT_TRY(read_file(folder, "reference.f8", want.data(),
                   p.checked * p.steps * (int64_t)sizeof(double)));
  TT_TRY(reset(l));
  TT_TRY(tt_graph_launch(l->graph, l->dev.stream));
  TT_TRY(tt_dev_download_sync(got.data(), l->loss, p.members * p.steps, l->dev.stream));
  double gap = 0.0, most = 0.0, limit = l->precision == "fp32" ? 1e-5 : 5e-4; /* of case.py */
  for (int64_t c = 0; c < p.checked; c++)
    for (int64_t k = 0; k < p.steps; k++) {
      double a = want[(size_t)(c * p.steps + k)];
      double b = std::fabs(a - (double)got[(size_t)(k * p.members + p.check[c])]);
      gap = b <= gap ? gap : b; /* also NaN */
      most = std::fabs(a) > most ? std::fabs(a) : most;
    }
  l->gap = gap / most;
  if (l->gap <= limit) return TT_OK;
  return TT_FAIL(DATA,
                 "losses of %lld steps differ from the reference by %.3g, more than %g: wrong "
                 "results, not timed",
                 (long long)p.steps, l->gap, limit);
}

tt_err run(loop *l, int64_t launches)
{
  for (int64_t i = 0; i < launches; i++) TT_TRY(tt_graph_launch(l->graph, l->dev.stream));
  return tt_stream_synchronize(l->dev.stream);
}

tt_err warm_up(loop *l)
{
  double first = tt_monotonic_seconds();
  for (l->count = 1;; l->count *= 2) {
    double begin = tt_monotonic_seconds();
    TT_TRY(run(l, l->count));
    if (tt_monotonic_seconds() - begin > SHORTEST_CALL) break;
  }
  l->warm_up_s = tt_monotonic_seconds() - first;
  return TT_OK;
}

tt_err time_steps(loop *l, double seconds, int64_t *steps, double *taken)
{
  double begin = tt_monotonic_seconds();
  for (*steps = 0; *steps == 0 || tt_monotonic_seconds() - begin < seconds;
       *steps += l->count * l->at.steps)
    TT_TRY(run(l, l->count));
  *taken = tt_monotonic_seconds() - begin;
  return TT_OK;
}

void drop(loop **held)
{
  loop *l = *held;
  *held = NULL;
  if (!l) return;
  tt_graph_destroy(&l->graph);
  for (float **one : {&l->x, &l->y, &l->target, &l->loss, &l->correction, &l->w, &l->g, &l->m,
                      &l->v, &l->delta[0], &l->delta[1]})
    tt_dev_free(*one);
  for (float *&one : l->h) tt_dev_free(one);
  tt_dev_free(l->order);
  tt_dev_free(l->taken);
  if (l->blas) cublasDestroy(l->blas);
  tt_dev_free_pointer(l->workspace);
  tt_dev_close(&l->dev);
  delete l;
}

/* Setting the stream removes the workspace: set it first. */
tt_err open_blas(loop *l)
{
  TRY_CUBLAS(cublasCreate(&l->blas));
  TRY_CUBLAS(cublasSetStream(l->blas, l->dev.stream));
  TT_TRY(tt_dev_alloc_bytes(&l->workspace, BLAS_WORKSPACE, 1, "workspace of cuBLAS"));
  TRY_CUBLAS(cublasSetWorkspace(l->blas, l->workspace, BLAS_WORKSPACE));
  TRY_CUBLAS(cublasSetMathMode(l->blas, l->precision == "tf32" ? CUBLAS_TF32_TENSOR_OP_MATH
                                                               : CUBLAS_DEFAULT_MATH));
  return TT_OK;
}

tt_err prepare(const char *folder, const std::string &precision, loop **out)
{
  double begin = tt_monotonic_seconds();
  if (precision != "fp32" && precision != "tf32")
    return TT_FAIL(UNAVAILABLE, "cuBLAS has no precision '%s'", precision.c_str());
  loop *l = *out = new loop();
  l->precision = precision;
  TT_TRY(read_problem(folder, &l->at));
  TT_TRY(tt_dev_open(0, &l->dev));
  TT_TRY(arrange(l, folder));
  TT_TRY(allocate(l, folder));
  l->bytes = tt_dev_memory_allocated().device_bytes;
  TT_TRY(open_blas(l));
  TT_TRY(capture(l));
  TT_TRY(compare(l, folder));
  l->prepare_s = tt_monotonic_seconds() - begin;
  return TT_OK;
}

/* commands */

void print(json_t *line)
{
  char *text = json_dumps(line, JSON_COMPACT);
  puts(text);
  free(text);
  json_decref(line);
}

json_t *describe(const loop *l)
{
  json_t *widths = json_array();
  for (int i = 0; i <= l->at.layers; i++)
    json_array_append_new(widths, json_integer(l->at.width[i]));
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:I, s:I, s:f, s:f, s:f, s:s}", "program",
                   "cublas", "workload", l->at.name.c_str(), "way", "graph", "precision",
                   l->precision.c_str(), "members", (json_int_t)l->at.members, "widths", widths,
                   "batch", (json_int_t)l->at.batch, "bytes", (json_int_t)l->bytes,
                   "check_difference", l->gap, "prepare_s", l->prepare_s, "warm_up_s", l->warm_up_s,
                   "device", l->dev.name);
}

tt_err time_held(loop *l, double seconds, json_t *dst)
{
  int64_t steps = 0;
  double taken = 0.0;
  if (!l) return TT_FAIL(USAGE, "this run is not prepared");
  TT_TRY(time_steps(l, seconds, &steps, &taken));
  json_object_set_new(dst, "steps", json_integer(steps));
  json_object_set_new(dst, "seconds", json_real(taken));
  return TT_OK;
}

void print_refusal() { print(json_pack("{s:s}", "refused", tt_err_last())); }

void obey(const char *line, loop **held)
{
  char folder[WORD_ROOM], way[WORD_ROOM], precision[WORD_ROOM], seconds[WORD_ROOM];
  json_t *answer = json_object();
  if (!strncmp(line, "list", 4)) {
    json_object_set_new(answer, "ways", json_pack("[s]", "graph"));
    json_object_set_new(answer, "precisions", json_pack("[s, s]", "fp32", "tf32"));
  } else if (!strncmp(line, "drop", 4)) {
    drop(held);
  } else if (sscanf(line, "prepare %511s %511s %511s", folder, way, precision) == 3) {
    drop(held);
    json_decref(answer);
    tt_err e = prepare(folder, precision, held);
    if (!e) e = warm_up(*held);
    answer = e ? json_pack("{s:s}", "refused", tt_err_last()) : describe(*held);
    if (e) drop(held);
  } else if (sscanf(line, "time %511s %511s %511s", way, precision, seconds) == 3) {
    if (time_held(*held, atof(seconds), answer))
      json_object_set_new(answer, "error", json_string(tt_err_last()));
  } else
    json_object_set_new(answer, "error", json_string("unknown command"));
  print(answer);
}

void serve()
{
  loop *held = NULL;
  char line[LINE_ROOM];
  while (fgets(line, sizeof line, stdin)) obey(line, &held);
  drop(&held);
}

int once(const char *folder, const char *precision, bool timed)
{
  loop *held = NULL;
  tt_err e = prepare(folder, precision, &held);
  if (!e && timed) e = warm_up(held);
  json_t *line = e ? NULL : describe(held);
  if (!e && timed) e = time_held(held, 1.0, line);
  if (e)
    print_refusal();
  else
    print(line);
  drop(&held);
  return tt_err_exit_code(e);
}
} // namespace

int main(int argc, char **argv)
{
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc == 2 && !strcmp(argv[1], "--serve")) return serve(), EXIT_SUCCESS;
  if (argc == 3 && !strcmp(argv[1], "--check")) return once(argv[2], "fp32", false);
  if (argc == 2 || argc == 3) return once(argv[1], argc == 3 ? argv[2] : "fp32", true);
  fprintf(stderr, "cublas_graph --serve, --check DIR, or DIR [fp32|tf32]\n");
  return EXIT_FAILURE;
}
