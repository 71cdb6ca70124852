! online.f90 -- a simulation that trains its own surrogate while it runs, online.c in Fortran: a
! driven pendulum, whose restoring force stands for a function that is expensive. An ensemble learns
! it from the calls that are made anyway; where its members agree, their mean replaces the call.
program online
  use, intrinsic :: iso_c_binding, only: c_double, c_float
  use, intrinsic :: iso_fortran_env, only: int64
  use tutti_training
  implicit none
  integer, parameter :: dp = c_double, members = 10, batch = 32, buffer = 1000, steps = 6000
  ! s; standard deviation of members in rad/s^2; scale of force
  real(dp), parameter :: dt = 0.01_dp, tolerance = 0.1_dp, y_scale = 8
  character(len=*), parameter :: options = '{model: {hidden: [32, 32], activation: tanh}, &
    &train: {batch_size: 32, learning_rate: 3e-3}, ensembles: [{name: force, members: 10}], &
    &run: {seed: 1}}'
  type(tutti_trainer) :: trainer
  ! The last labels: a step needs rows of all places that the pendulum has visited, because a network
  ! that learns only the newest rows forgets the others.
  real(c_float) :: buffer_x(2, buffer), buffer_y(1, buffer)
  real(dp) :: state(2), exact(2), force, deviation, worst
  integer(int64) :: random = 1
  integer :: step, labels

  call trainer%create(options, inputs=2, targets=1, x_mean=[0.0_dp, 0.0_dp], &
                      x_scale=[2.0_dp, 5.0_dp], y_mean=[0.0_dp], y_scale=[y_scale])
  state = [2, 0] ! angle, velocity
  exact = state
  worst = 0
  labels = 0
  do step = 0, steps - 1
    call predict(force, deviation)
    if (mod(step, 1000) == 0) &
      write (*, '(f3.0, es25.16, f7.3, i5)') dt * step, state(1), deviation, labels
    if (labels < batch .or. deviation > tolerance) call call_and_keep(force)
    call train()
    call move(state, force)
    call move(exact, expensive(exact)) ! only to judge the result
    worst = max(worst, abs(state(1) - exact(1)))
  end do
  write (*, '(i0, a, i0, a, f5.3, a)') labels, ' calls in ', steps, ' steps, angle within ', worst, &
    ' rad'
  call trainer%save('online.h5')
  call trainer%destroy()

contains

  real(dp) function expensive(at)
    real(dp), intent(in) :: at(2)
    expensive = -9.81_dp * sin(at(1)) - 0.3_dp * at(2)
  end function

  ! Mean of the members, and their standard deviation. Outputs are in units of y_scale.
  subroutine predict(mean, std)
    real(dp), intent(out) :: mean, std
    real(c_float) :: output(1, 1, members)
    call trainer%predict(reshape(real(state, c_float), [2, 1]), output)
    mean = sum(real(output, dp)) / members
    std = y_scale * sqrt(sum((output - mean)**2) / members)
    mean = y_scale * mean
  end subroutine

  subroutine call_and_keep(value)
    real(dp), intent(out) :: value
    integer :: row
    value = expensive(state)
    row = 1 + mod(labels, buffer)
    buffer_x(:, row) = real(state, c_float)
    buffer_y(1, row) = real(value, c_float)
    labels = labels + 1
  end subroutine

  ! One step with random rows of the buffer. Each member takes its own: otherwise the members become
  ! too similar, and their disagreement too small.
  subroutine train()
    integer :: index(batch, members), rows, member, i
    rows = min(labels, buffer)
    do member = 1, members
      do i = 1, batch
        random = mod(16807 * random, 2147483647_int64) ! Park & Miller 1988
        index(i, member) = 1 + int(mod(random, int(rows, int64)))
      end do
    end do
    call trainer%step(buffer_x(:, 1:rows), buffer_y(:, 1:rows), index=index)
  end subroutine

  ! One time step; the drive is known, so that it is not learned.
  subroutine move(at, acceleration)
    real(dp), intent(inout) :: at(2)
    real(dp), intent(in) :: acceleration
    at(2) = at(2) + dt * (acceleration + 5 * cos(1.5_dp * dt * step))
    at(1) = at(1) + dt * at(2)
  end subroutine
end program
