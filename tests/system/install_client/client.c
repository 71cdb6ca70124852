/* client.c MODEL — example of a program that uses the library: open a model, predict one row. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti.h>

int main(int argc, char **argv)
{
  tutti_model *model = NULL;
  if (argc != 2 || tutti_open(argv[1], &model)) {
    fprintf(stderr, "%s\n", tutti_error());
    return 1;
  }
  int64_t inputs = tutti_inputs(model), columns = tutti_columns(model);
  double *x = calloc((size_t)inputs, sizeof *x), *y = calloc((size_t)columns * 2, sizeof *y);
  tutti_prediction out = {.size = sizeof out, .mean = y, .total = y + columns};
  int e = tutti_predict(model, 1, x, 1, &out);
  for (int64_t c = 0; !e && c < columns; c++)
    printf("%s: %.17g +- %.17g\n", tutti_target_name(model, c), y[c], y[columns + c]);
  if (e) fprintf(stderr, "%s\n", tutti_error());
  free(x);
  free(y);
  tutti_close(&model);
  return e;
}
