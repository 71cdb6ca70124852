# The rooms: each is a folder and an object library. USE names the rooms that a room may include
# from; tests/house/check_house.py reads this table and rejects every other include. USE names only
# rooms of earlier lines, so there are no cycles.
#
#   tutti_room(FOLDER [USE FOLDER...] [LINK LIBRARY...] [CALLS FOLDER...])
#
# CALLS names a room of a later line whose functions this one calls by a header of its own: no
# program has the one without the other. tutti_with_needs adds to a list of libraries those that
# they need: what a program links that uses only some rooms.
#
# The library of core/base is called tutti_core_base. If nvcc is found, it compiles
# rooms with .cu files: these are in TUTTI_CUDA_ROOMS, all others in TUTTI_ROOMS. A room without
# sources is an INTERFACE library.
set(TUTTI_ROOMS)
set(TUTTI_CUDA_ROOMS)
function(tutti_room folder)
  cmake_parse_arguments(ROOM "" "" "USE;LINK;CALLS" ${ARGN})
  string(REPLACE / _ name tutti_${folder})
  foreach(list ROOM_USE ROOM_CALLS)
    list(TRANSFORM ${list} REPLACE / _)
    list(TRANSFORM ${list} PREPEND tutti_)
  endforeach()
  set_property(GLOBAL PROPERTY ${name}_needs ${ROOM_USE} ${ROOM_CALLS})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cu)
  if(kernels AND CMAKE_CUDA_COMPILER)
    add_library(${name} OBJECT ${kernels})
    target_link_libraries(${name} PUBLIC tutti_flags ${ROOM_USE} ${ROOM_LINK})
    tutti_cuda_compile(${name})
    target_link_libraries(${name} INTERFACE CUDA::cudart_static stdc++)
    set(TUTTI_CUDA_ROOMS ${TUTTI_CUDA_ROOMS} ${name} PARENT_SCOPE)
  elseif(sources)
    add_library(${name} OBJECT ${sources})
    target_link_libraries(${name} PUBLIC tutti_flags ${ROOM_USE} ${ROOM_LINK})
    set(TUTTI_ROOMS ${TUTTI_ROOMS} ${name} PARENT_SCOPE)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE tutti_flags ${ROOM_USE} ${ROOM_LINK})
  endif()
endfunction()

function(tutti_with_needs out)
  set(found)
  set(left ${ARGN})
  while(left)
    list(POP_FRONT left room)
    if(NOT room IN_LIST found)
      list(APPEND found ${room})
      get_property(more GLOBAL PROPERTY ${room}_needs)
      list(APPEND left ${more})
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Floors 0 and 1: code that gcc and nvcc share, options, members, statistics.
tutti_room(core/base LINK tutti_random123 tutti_jansson m)
tutti_room(core/formulas USE core/base)
tutti_room(core/front USE core/base core/formulas)
tutti_room(core/config USE core/base core/formulas core/front LINK tutti_xxhash m
           CALLS core/config/yaml)
tutti_room(core/config/yaml USE core/base core/formulas core/config LINK tutti_yaml)
tutti_room(core/columns USE core/base core/formulas)
tutti_room(core/model USE core/base core/formulas core/front core/config core/columns
           LINK tutti_xxhash)
tutti_room(core/groups USE core/base core/model)
tutti_room(core/stats USE core/base core/formulas core/config core/model LINK m)
tutti_room(core/engine USE core/base core/model core/stats)

# Floor 2: ranks. mpi/serial is MPI for one process (TUTTI_MPI=OFF).
tutti_room(mpi/serial)
tutti_room(mpi USE core/base LINK tutti_mpi_library)

# Floor 3: engines, files, Slurm. Engines and files do not include each other.
tutti_room(src/cpu/kernels USE core/base core/formulas core/front core/model)
tutti_room(src/cpu USE core/base core/formulas core/front core/model core/stats core/engine
           src/cpu/kernels LINK OpenMP::OpenMP_C)
tutti_room(cuda/plan USE core/base core/formulas core/front core/model core/engine LINK
           OpenMP::OpenMP_C)
tutti_room(cuda/common USE core/base core/formulas core/config core/model core/engine cuda/plan
           LINK ${CMAKE_DL_LIBS})
tutti_room(cuda/block USE core/base core/formulas cuda/plan cuda/common)
tutti_room(cuda/warp USE core/base core/formulas cuda/plan cuda/common)
tutti_room(cuda/cluster USE core/base core/formulas cuda/plan cuda/common cuda/block)
tutti_room(cuda/product USE core/base core/formulas core/config cuda/common)
tutti_room(cuda/front USE core/base core/formulas core/front core/config cuda/plan cuda/common
           cuda/product)
tutti_room(cuda/layered USE core/base core/formulas core/front cuda/plan cuda/common cuda/product
           cuda/front)
tutti_room(cuda/engine USE core/base core/formulas core/front core/model core/engine cuda/plan
           cuda/common cuda/product cuda/front)
tutti_room(io/table USE core/base core/formulas LINK tutti_zlib tutti_xxhash m)
tutti_room(io/files USE core/base LINK Threads::Threads)
tutti_room(io/hdf5 USE core/base core/model mpi io/table io/files LINK tutti_hdf5)
tutti_room(io/columns USE core/base core/formulas core/columns core/config core/model mpi io/table
           LINK m)
tutti_room(io/data USE core/base core/config core/columns core/model core/groups mpi io/hdf5 io/table
           io/columns)
tutti_room(io/model USE core/base core/front core/columns core/model core/groups mpi io/hdf5)
tutti_room(io/checkpoint USE core/base core/model mpi io/files io/hdf5 LINK Threads::Threads)
tutti_room(io/results USE core/base core/config core/model core/stats mpi io/files io/hdf5 io/table
           io/data)
tutti_room(io/campaign USE core/base core/config core/columns core/model core/stats mpi io/files
           io/hdf5 io/table io/data)
tutti_room(slurm USE core/base core/config io/files LINK tutti_xxhash)

# Floor 4: one run, from a job file to its outputs.
tutti_room(src/host USE core/base core/config core/engine src/cpu mpi io/files slurm
           LINK Threads::Threads OpenMP::OpenMP_C ${CMAKE_DL_LIBS})
tutti_room(src/job USE core/base core/config core/model core/engine mpi io/files io/hdf5 io/table
           io/data io/model src/host)
tutti_room(src/predict USE core/base core/formulas core/front core/model core/groups core/stats core/engine mpi
           io/files io/hdf5 io/data io/model io/results src/host)
tutti_room(src/score USE core/base core/formulas core/model core/stats core/engine mpi io/files
           io/hdf5 io/data io/model io/results io/table src/host src/predict)
tutti_room(src/explain USE core/base core/formulas core/model core/stats core/engine mpi io/files
           io/data io/model io/results src/host src/predict src/score)
tutti_room(src/train/shard USE core/base core/model core/stats core/engine mpi io/data io/model
           io/checkpoint io/results src/host src/job)
tutti_room(src/train USE core/base core/model core/groups core/stats core/engine cuda/plan mpi io/files io/data
           io/model io/checkpoint io/results src/host src/job src/predict src/score src/train/shard)
tutti_room(src/train/self_check USE core/base core/formulas core/front core/model core/stats core/engine mpi
           src/host src/train)

# Floor 5: code that uses runs.
tutti_room(src/tools USE core/base core/front core/model core/stats core/engine mpi cuda/plan io/files
           io/hdf5 io/table io/data io/model src/cpu/kernels src/host src/job src/train)
tutti_room(src/campaign/state USE core/base core/columns core/stats io/files)
tutti_room(src/export USE core/base core/formulas core/front core/config core/model core/groups core/stats
           io/files io/hdf5 io/data io/model io/results src/predict LINK m)
tutti_room(src/report USE core/base io/results src/host)
tutti_room(src/report/page USE core/base core/config core/formulas core/model core/stats io/files
           io/hdf5 io/results src/host src/predict src/score src/report)
tutti_room(src/campaign/points USE core/base core/columns core/model core/stats io/files io/campaign
           io/checkpoint io/table src/host src/campaign/state)
tutti_room(src/campaign/pool USE core/base core/config core/model core/stats core/engine mpi io/hdf5
           io/data io/campaign src/host src/predict src/campaign/state LINK OpenMP::OpenMP_C)
tutti_room(src/campaign/select USE core/base core/config core/model core/stats io/data io/campaign
           src/host src/campaign/state)
tutti_room(src/campaign/label USE core/base core/config mpi io/files io/hdf5 io/data io/campaign
           src/host slurm src/campaign/state src/campaign/points)
tutti_room(src/campaign/report USE core/base io/campaign src/host src/report src/report/page
           src/campaign/state src/campaign/points)
tutti_room(src/campaign/driver USE core/base core/model core/stats io/files io/data io/model
           io/checkpoint io/results io/campaign src/host src/job src/train src/campaign/state
           src/campaign/points src/campaign/pool src/campaign/select src/campaign/label)
