! everything.f90 MODEL CLASSES -- everything of the modules tutti and tutti_training, for
! check_bindings.py: one number a line. Writes the model file trained.h5.
program everything
  use, intrinsic :: iso_c_binding, only: c_double, c_float, c_int8_t
  use tutti_training
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
  call model%open(file, stat, member=-1)
  if (stat /= 64 .or. index(tutti_message(), 'member -1') == 0) error stop 'open of no member'
  call model%open(file, member=0)
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
  call train()

contains

  ! Three members, with the steps of trainer_numbers() of check_bindings.py.
  subroutine train()
    character(len=*), parameter :: options = &
      '{model: {hidden: [5, 4]}, train: {batch_size: 8, learning_rate: 0.02, epochs: 40, &
      &schedule: cosine}, ensembles: [{name: e, members: 3}], run: {seed: 7}}'
    type(tutti_trainer) :: t
    integer, parameter :: rows(4, 3) = reshape([1, 2, 3, 4, 6, 6, 1, 5, 3, 2, 2, 4], [4, 3])
    real(c_float) :: inputs(2, 6), labels(1, 6), weight(6), output(1, 6, 3), slope(2, 6, 3)
    real(c_float) :: part(1, 4, 3), gradients(44, 3)
    real(c_float), allocatable :: w(:), all(:)
    real(c_double) :: loss(3), again(3), means(1, 6)
    integer(c_int8_t), allocatable :: state(:)
    integer :: i, status

    do i = 0, 5
      inputs(:, i + 1) = [real(mod(i, 3) - 1, c_float) / 2, real(mod(i * i, 7) - 3, c_float) / 4]
      weight(i + 1) = real(1 + mod(i, 2), c_float)
    end do
    labels(1, :) = inputs(1, :) * inputs(2, :) - inputs(1, :)
    call t%step(inputs, labels, stat=status)
    if (status /= 64 .or. index(tutti_message(), 'has not been created') == 0) &
      error stop 'a step of no trainer'
    call t%create('{modell: 1}', 2, 1, stat=status)
    if (status /= 78 .or. index(tutti_message(), 'modell') == 0) error stop 'an unknown option'
    call t%create(options, 2, 1, x_mean=[0.0_c_double], stat=status)
    if (status /= 64 .or. index(tutti_message(), 'shapes') == 0) error stop 'a short mean'
    call t%create(options, 2, 1, input_name=['angle', 'speed'], target_name=['pull'], &
                  x_mean=[0.25_c_double, 0.0_c_double], x_scale=[2.0_c_double, 0.5_c_double], &
                  y_mean=[0.5_c_double], y_scale=[4.0_c_double], epoch_rows=6, threads=2)
    if (any([t%members(), t%outputs(), t%parameters()] /= [3, 1, 44])) error stop 'sizes of a trainer'

    call t%step(inputs, labels, loss, weight)
    write (*, '(es25.17)') loss
    call t%step(inputs, labels, loss, index=rows)
    write (*, '(es25.17)') loss
    call t%step(inputs, labels, loss, own_rows=.true.)
    write (*, '(es25.17)') loss
    call t%forward(inputs, output)
    call t%forward(inputs(:, 1:5), output, stat=status) ! leaves the forward before it as it was
    if (status /= 64 .or. index(tutti_message(), 'shapes') == 0) error stop 'outputs of other rows'
    call t%backward(output - spread(labels, 3, 3), slope)
    call t%update()
    write (*, '(es25.17)') slope
    call t%forward(inputs, part, index=rows)
    call t%backward(part)
    call t%update()
    write (*, '(es25.17)') part
    call t%forward(inputs, part(:, 1:2, :), own_rows=.true.)
    write (*, '(es25.17)') part(:, 1:2, :)
    call t%backward(part(:, 1:2, :))
    call t%take_gradient(gradients)
    write (*, '(es25.17)') gradients

    call t%set_learning_rate(0.01_c_double)
    call t%set_learning_rate(0.03_c_double, 2)
    write (*, '(es25.17)') (t%learning_rate(i), i = 1, 3)
    call t%get_state(state)
    call t%step(inputs, labels, loss)
    call t%set_state(state)
    call t%step(inputs, labels, again)
    if (any(abs(again - loss) > 0)) error stop 'the step after set_state'
    write (*, '(es25.17)') loss
    call t%set_state(state(2:), stat=status)
    if (status /= 65) error stop 'half a state'

    allocate (w(t%parameters()))
    call t%get_weights(1, w)
    call t%set_weights(2, w)
    allocate (all(3 * size(w)))
    call t%get_weights(0, all)
    if (any(abs(all(size(w) + 1:2 * size(w)) - w) > 0)) error stop 'weights of all'
    call t%set_weights(0, all)
    call t%reset(3)
    call t%get_weights(3, w)
    write (*, '(es25.17)') w
    call t%predict(inputs, output)
    write (*, '(es25.17)') output
    call t%model(model)
    call model%predict(real(inputs, c_double), means)
    write (*, '(es25.17)') means
    call t%save('trained.h5')
    if (model%input_name(2) /= 'speed' .or. model%column_label(1) /= 'pull') error stop 'names'
    call model%close()

    call t%step(inputs, labels, index=rows - 1, stat=status)
    if (status /= 64 .or. index(tutti_message(), 'index') == 0) error stop 'row 0'
    call t%step(inputs, labels(:, 1:5), stat=status)
    if (status /= 64) error stop 'a label is missing'
    call t%get_weights(1, w(2:), stat=status)
    if (status /= 64) error stop 'a weight is missing'
    call t%get_weights(4, w, stat=status)
    if (status /= 64 .or. index(tutti_message(), 'member 3') == 0) error stop 'member 4'
    call t%set_learning_rate(0.1_c_double, 0, stat=status)
    if (status /= 64) error stop 'member 0'
    call t%backward(part, stat=status)
    if (status /= 64) error stop 'gradients of other rows'
    call t%update(stat=status)
    if (status /= 64 .or. index(tutti_message(), 'backward') == 0) error stop 'no gradient'
    call t%destroy()
    call t%save('none.h5', stat=status)
    if (status /= 64 .or. t%members() /= 0) error stop 'a trainer that is gone'
  end subroutine
end program
