! everything.f90 MODEL CLASSES -- everything of the module tutti, for check_bindings.py: one number a
! line.
program everything
  use, intrinsic :: iso_c_binding, only: c_double
  use tutti
  implicit none
  type(tutti_model) :: model, classes
  type(tutti_workspace) :: work
  real(c_double) :: x(2, 3), part(1, 3, 4), slope(2, 1, 3, 4), quantile(1, 3, 2), one(1), wide(4, 3)
  real(c_double) :: one_slope(2, 1), lower(1, 3, 2), upper(1, 3, 2), entropy(4, 3), shared(4, 3)
  real(c_double) :: mean(4, 3, 3), variance(4, 3, 3)
  character(len=1024) :: file
  integer :: stat

  x = 0
  call get_command_argument(1, file)
  call model%open('none.h5', stat=stat)
  if (stat /= 66 .or. index(tutti_message(), 'none.h5') == 0) error stop 'open of a missing file'
  if (model%inputs() /= 0 .or. model%column_label(1) /= '') error stop 'sizes of no model'
  call model%predict(x(:, 1), one, stat=stat)
  if (stat /= 64 .or. index(tutti_message(), 'none.h5: this model is closed') == 0) &
    error stop 'a prediction of no model'
  call model%open(file)
  if (model%inputs() /= 2 .or. model%columns() /= 1 .or. model%members() /= 5) error stop 'sizes'
  if (model%input_name(2) /= 'velocity' .or. model%input_name(3) /= '') error stop 'input_name'
  if (model%column_label(1) /= 'acceleration' .or. model%target_units(1) /= '') error stop 'label'
  x = reshape([0.5_c_double, -1.0_c_double, 1.0_c_double, 2.0_c_double, -3.0_c_double, &
               0.25_c_double], [2, 3])
  call model%predict(x, part(:, :, 1), part(:, :, 2), part(:, :, 3), part(:, :, 4), threads=2)
  write (*, '(es25.17)') part
  call work%create(model, 2)
  call model%predict(x, part(:, :, 1), mean_gradient=slope(:, :, :, 1), &
                     total_gradient=slope(:, :, :, 2), aleatoric_gradient=slope(:, :, :, 3), &
                     epistemic_gradient=slope(:, :, :, 4), workspace=work, threads=2)
  write (*, '(es25.17)') slope
  call model%quantiles(x, [0.1_c_double, 0.9_c_double], quantile)
  write (*, '(es25.17)') quantile
  call model%intervals(x, lower, upper)
  write (*, '(es25.17)') lower, upper
  if (model%levels() /= 2 .or. abs(model%level(2) - 0.9_c_double) > 0) error stop 'levels'

  ! Three members that predict three classes and an entropy.
  call get_command_argument(2, file)
  call classes%open(file)
  if (.not. classes%has_classes() .or. model%has_classes()) error stop 'has_classes'
  if (classes%member_columns() /= 4 .or. classes%members() /= 3) error stop 'sizes of members'
  call classes%entropies(x, entropy, shared, threads=2)
  write (*, '(es25.17)') entropy, shared
  call classes%member_predictions(x, mean, variance)
  write (*, '(es25.17)') mean, variance
  call classes%member_predictions(x, mean(:, :, 1:2), variance, stat=stat)
  if (stat /= 64 .or. index(tutti_message(), 'shapes') == 0) error stop 'shapes of members'
  call classes%entropies(x, entropy(1:2, :), shared, stat=stat)
  if (stat /= 64) error stop 'shapes of entropies'
  call classes%close()
  call model%entropies(x, part(:, :, 1), part(:, :, 2), stat=stat)
  if (stat /= 64 .or. index(tutti_message(), 'no classes') == 0) error stop 'no classes'
  call model%predict(x, part(:, :, 1))

  ! A section that is not contiguous, one row, arrays that do not fit.
  wide = 0
  wide(2:4:2, :) = x
  call model%predict(wide(2:4:2, :), part(:, :, 2))
  if (any(abs(part(:, :, 2) - part(:, :, 1)) > 0)) error stop 'a section'
  call model%predict(x(:, 3), one)
  if (abs(one(1) - part(1, 3, 1)) > 0) error stop 'one row'
  call model%predict(x(:, 3), one, mean_gradient=one_slope, workspace=work)
  if (any(abs(one_slope - slope(:, :, 3, 1)) > 0)) error stop 'gradient of one row'
  call model%predict(x, part(:, 1:2, 1), stat=stat)
  if (stat /= 64 .or. index(tutti_message(), 'shapes') == 0) error stop 'shapes'
  call model%predict(transpose(x), part(:, :, 1), stat=stat)
  if (stat /= 64) error stop 'a transposed array'
  call work%destroy()
  call model%close()
  call work%create(model, stat=stat)
  if (stat /= 64) error stop 'a workspace of a closed model'
  call model%predict(x, part(:, :, 1), stat=stat)
  if (stat /= 64 .or. index(tutti_message(), 'model.h5: this model is closed') == 0) &
    error stop 'a closed model'
end program
