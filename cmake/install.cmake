# Installs program, libraries, header, and the files with which other builds find them.
include(CMakePackageConfigHelpers)

set_target_properties(tutti_static PROPERTIES OUTPUT_NAME tutti)
set_target_properties(tutti_shared PROPERTIES OUTPUT_NAME tutti EXPORT_NAME tutti
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(tutti_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# The CMake package has the shared library, tutti::tutti; for the static library, pkg-config lists
# the other libraries that it needs (pkg-config --static --libs tutti).
install(TARGETS tutti tutti_static)
if(TARGET tutti_cuda)
  install(TARGETS tutti_cuda DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS tutti_shared EXPORT tutti-targets)
install(FILES ${CMAKE_SOURCE_DIR}/src/api/tutti.h ${CMAKE_SOURCE_DIR}/src/api/tutti.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Programs compile the Fortran modules themselves: module files depend on the compiler.
install(FILES ${CMAKE_SOURCE_DIR}/src/api/tutti.f90 ${CMAKE_SOURCE_DIR}/src/api/tutti_training.f90
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti)

install(FILES packaging/tutti.bash RENAME tutti
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# A manual page from `tutti --help`, where help2man is installed.
find_program(TUTTI_HELP2MAN help2man)
if(TUTTI_HELP2MAN AND NOT TUTTI_SANITIZE AND NOT TUTTI_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  add_custom_command(OUTPUT tutti.1
                     COMMAND ${TUTTI_HELP2MAN} --no-info -n "${PROJECT_DESCRIPTION}" -o tutti.1
                             $<TARGET_FILE:tutti>
                     DEPENDS tutti VERBATIM)
  add_custom_target(tutti_page ALL DEPENDS tutti.1)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti
        PATTERN "*.[ch]" EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti
        PATTERN __pycache__ EXCLUDE)
# In the folders of the tree, so that links between the pages work.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        PATTERN __pycache__ EXCLUDE PATTERN out EXCLUDE PATTERN "*.h5" EXCLUDE)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(EXPORT tutti-targets NAMESPACE tutti:: FILE tuttiConfig.cmake DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tuttiConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tuttiConfigVersion.cmake DESTINATION ${package})

list(JOIN HDF5_C_HL_LIBRARIES " " hl)
list(JOIN HDF5_C_LIBRARIES " " hdf5)
list(JOIN MPI_C_LIBRARIES " " mpi)
set(TUTTI_LIBS_PRIVATE "${hl} ${hdf5} ${mpi} -lyaml -lxxhash -ljansson -lz ${OpenMP_C_FLAGS} -lm")
configure_file(${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(cmake/package.cmake)
