// other_mpi.cpp MODEL — a program with another MPI library, which is made up, for check_bindings.py: it
// opens a model after MPI_Init, or is refused if MPI_RUNS is set, as libtutti loaded after MPI_Init is.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tutti.hpp>

static int initialized;

extern "C" {
int MPI_Initialized(int *flag)
{
  *flag = initialized || std::getenv("MPI_RUNS");
  return 0;
}
int MPI_Get_library_version(char *text, int *length)
{
  std::strcpy(text, "MPICH Version: made up");
  *length = static_cast<int>(std::strlen(text));
  return 0;
}
}

int main(int, char **argv)
{
  const bool refused = std::getenv("MPI_RUNS") != nullptr;
  tutti_model *model = nullptr;
  initialized = 1;
  const int code = tutti_open(argv[1], &model);
  std::printf("%d %s\n", code, tutti_error());
  tutti_close(&model);
  return code != (refused ? 69 : 0) ||
         refused != (std::strstr(tutti_error(), "made up") != nullptr);
}
