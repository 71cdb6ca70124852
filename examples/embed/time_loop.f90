! time_loop.f90 MODEL -- a time loop that calls an ensemble in every step: a pendulum whose
! acceleration is learned. Prints a line every half second, and where the ensemble was least sure.
program time_loop
  use, intrinsic :: iso_c_binding, only: c_double
  use tutti
  implicit none
  real(c_double), parameter :: dt = 0.01_c_double
  integer, parameter :: steps = 400
  type(tutti_model) :: model
  type(tutti_workspace) :: work ! so that no step allocates memory
  real(c_double) :: state(2), acceleration(1), std(1), worst, worst_time
  character(len=1024) :: file
  integer :: step

  call get_command_argument(1, file)
  call model%open(file)
  call work%create(model)
  state = [2.0_c_double, 0.0_c_double] ! angle, velocity
  worst = 0
  worst_time = 0
  do step = 1, steps
    call model%predict(state, acceleration, total=std, workspace=work)
    if (mod(step, 50) == 1) &
      write (*, '(f5.2, 4(1x, es24.16))') dt * (step - 1), state, acceleration, std
    if (std(1) > worst) then
      worst = std(1)
      worst_time = dt * (step - 1)
    end if
    state(2) = state(2) + dt * acceleration(1)
    state(1) = state(1) + dt * state(2)
  end do
  write (*, '(a, es10.2, a, f5.2)') 'largest standard deviation', worst, ' at t =', worst_time
  call work%destroy()
  call model%close()
end program
