! tutti_training.f90 -- tutti_trainer_* of tutti.h for Fortran 2008: ensembles that the program
! trains itself, step by step (docs/trainer.md).
!
! Compile it after tutti.f90, whose rules for arrays, `stat` and `threads` are those of this file.
! The names of the module tutti are those of this module too. Values of rows and weights are
! real(c_float), without conversion: the networks compute with them. Members, and rows in an index,
! are numbered from 1. A trainer is for one call at a time.
module tutti_training
  use, intrinsic :: iso_c_binding
  use tutti
  implicit none
  private
  public :: tutti_trainer, tutti_model, tutti_workspace, tutti_message

  type :: tutti_trainer
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: columns(2) = 0 ! of x and of y
    integer :: rows = 0       ! of the last forward, for each member
    logical :: on_ranks = .false.
    ! What backward reads again: arrays of the caller may be temporary.
    real(c_float), allocatable :: x(:)
    integer(c_int32_t), allocatable :: index(:)
  contains
    procedure :: create => create_trainer
    procedure :: destroy => destroy_trainer
    procedure :: members => trainer_members
    procedure :: outputs, parameters
    procedure :: step, forward, backward, update, take_gradient
    procedure :: predict => predict_outputs
    procedure :: model => make_model
    procedure :: save => save_model
    procedure :: get_weights, set_weights, learning_rate, set_learning_rate, reset
    procedure :: get_state, set_state
    procedure, private :: describe, ready
  end type

  ! struct tutti_trainer_options
  type, bind(c) :: trainer_options
    integer(c_size_t) :: size = 0
    type(c_ptr) :: options = c_null_ptr, set = c_null_ptr
    integer(c_int) :: nset = 0, threads = 1
    integer(c_int64_t) :: inputs = 0, targets = 0
    type(c_ptr) :: input_name = c_null_ptr, target_name = c_null_ptr
    type(c_ptr) :: x_mean = c_null_ptr, x_scale = c_null_ptr
    type(c_ptr) :: y_mean = c_null_ptr, y_scale = c_null_ptr
    integer(c_int64_t) :: epoch_rows = 0
    integer(c_int) :: on_ranks = 0, comm = 0
  end type

  ! struct tutti_batch
  type, bind(c) :: given_rows
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: rows = 0
    type(c_ptr) :: x = c_null_ptr, y = c_null_ptr, weight = c_null_ptr
    integer(c_int64_t) :: count = 0
    type(c_ptr) :: index = c_null_ptr
    integer(c_int) :: own_rows = 0
  end type

  character(len=*), parameter :: no_fit = &
    'tutti: the shapes of the arrays, or the rows of the index, do not fit the trainer'

  procedure(tutti_count), bind(c) :: tutti_trainer_members, tutti_trainer_outputs, &
    tutti_trainer_parameters, tutti_trainer_state_bytes

  abstract interface
    integer(c_int) function of_member(trainer, member, weights) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int64_t), value :: member
      real(c_float) :: weights(*)
    end function
  end interface
  procedure(of_member), bind(c) :: tutti_trainer_get_weights, tutti_trainer_set_weights

  interface
    integer(c_int) function tutti_trainer_create(options, trainer) bind(c)
      import
      type(trainer_options), intent(in) :: options
      type(c_ptr), intent(out) :: trainer
    end function
    subroutine tutti_trainer_destroy(trainer) bind(c)
      import
      type(c_ptr), intent(inout) :: trainer
    end subroutine
    integer(c_int) function tutti_trainer_step(trainer, batch, loss) bind(c)
      import
      type(c_ptr), value :: trainer, loss
      type(given_rows), intent(in) :: batch
    end function
    integer(c_int) function tutti_trainer_forward(trainer, batch, output) bind(c)
      import
      type(c_ptr), value :: trainer
      type(given_rows), intent(in) :: batch
      real(c_float), intent(out) :: output(*)
    end function
    integer(c_int) function tutti_trainer_backward(trainer, gradient, input_gradient) bind(c)
      import
      type(c_ptr), value :: trainer, input_gradient
      real(c_float), intent(in) :: gradient(*)
    end function
    integer(c_int) function tutti_trainer_update(trainer) bind(c)
      import
      type(c_ptr), value :: trainer
    end function
    integer(c_int) function tutti_trainer_take_gradient(trainer, gradient) bind(c)
      import
      type(c_ptr), value :: trainer
      real(c_float), intent(out) :: gradient(*)
    end function
    integer(c_int) function tutti_trainer_predict(trainer, rows, x, output) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int64_t), value :: rows
      real(c_float), intent(in) :: x(*)
      real(c_float), intent(out) :: output(*)
    end function
    integer(c_int) function tutti_trainer_model(trainer, model) bind(c)
      import
      type(c_ptr), value :: trainer
      type(c_ptr), intent(out) :: model
    end function
    integer(c_int) function tutti_trainer_save(trainer, file) bind(c)
      import
      type(c_ptr), value :: trainer
      character(kind=c_char), intent(in) :: file(*)
    end function
    real(c_double) function tutti_trainer_learning_rate(trainer, member) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int64_t), value :: member
    end function
    integer(c_int) function tutti_trainer_set_learning_rate(trainer, member, rate) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int64_t), value :: member
      real(c_double), value :: rate
    end function
    integer(c_int) function tutti_trainer_reset(trainer, member) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int64_t), value :: member
    end function
    integer(c_int) function tutti_trainer_get_state(trainer, state) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int8_t), intent(out) :: state(*)
    end function
    integer(c_int) function tutti_trainer_set_state(trainer, state, bytes) bind(c)
      import
      type(c_ptr), value :: trainer
      integer(c_int8_t), intent(in) :: state(*)
      integer(c_int64_t), value :: bytes
    end function
  end interface

contains

  ! The members of `options`, YAML text as in a job file: '{model: {hidden: [8]}, train: ...}'.
  ! Optional: names of the columns for the model file; means and scales of the columns, networks get
  ! (x - x_mean) / x_scale; rows of an epoch, 0 = no epochs; a communicator, whose ranks train
  ! together: then `output` and gradients have the rows of all ranks, in their order (tutti.h).
  subroutine create_trainer(self, options, inputs, targets, input_name, target_name, x_mean, &
                            x_scale, y_mean, y_scale, epoch_rows, threads, comm, stat)
    class(tutti_trainer), intent(inout) :: self
    character(len=*), intent(in) :: options
    integer, intent(in) :: inputs, targets
    character(len=*), intent(in), optional :: input_name(:), target_name(:)
    real(c_double), intent(in), contiguous, target, optional :: x_mean(:), x_scale(:)
    real(c_double), intent(in), contiguous, target, optional :: y_mean(:), y_scale(:)
    integer, intent(in), optional :: epoch_rows, threads, comm
    integer, intent(out), optional :: stat
    character(kind=c_char), allocatable, target :: text(:, :), x_text(:, :), y_text(:, :)
    type(c_ptr), allocatable, target :: yaml(:), x_name(:), y_name(:)
    type(trainer_options) :: o
    integer(c_int) :: code
    logical :: fits
    call self%destroy()
    fits = .true.
    call c_texts([options], text, yaml)
    o%size = c_sizeof(o)
    o%options = yaml(1)
    if (present(threads)) o%threads = threads
    o%inputs = inputs
    o%targets = targets
    if (present(input_name)) then
      fits = fits .and. size(input_name) == inputs
      call c_texts(input_name, x_text, x_name)
      o%input_name = c_loc(x_name)
    end if
    if (present(target_name)) then
      fits = fits .and. size(target_name) == targets
      call c_texts(target_name, y_text, y_name)
      o%target_name = c_loc(y_name)
    end if
    if (present(x_mean)) fits = fits .and. size(x_mean) == inputs
    if (present(x_scale)) fits = fits .and. size(x_scale) == inputs
    if (present(y_mean)) fits = fits .and. size(y_mean) == targets
    if (present(y_scale)) fits = fits .and. size(y_scale) == targets
    o%x_mean = tutti_address(x_mean)
    o%x_scale = tutti_address(x_scale)
    o%y_mean = tutti_address(y_mean)
    o%y_scale = tutti_address(y_scale)
    if (present(epoch_rows)) o%epoch_rows = epoch_rows
    self%on_ranks = present(comm)
    if (present(comm)) then
      o%on_ranks = 1
      o%comm = comm
    end if
    code = 64
    if (fits) code = tutti_trainer_create(o, self%handle)
    self%columns = [inputs, targets]
    if (fits) call tutti_finish(code, '', stat)
    if (.not. fits) call tutti_finish(code, no_fit, stat)
  end subroutine

  ! Whether the library can be called. If there is no trainer, or an array does not fit, report the
  ! error.
  logical function ready(self, fits, stat)
    class(tutti_trainer), intent(in) :: self
    logical, intent(in) :: fits
    integer, intent(out), optional :: stat
    character(len=:), allocatable :: text
    text = no_fit
    if (.not. c_associated(self%handle)) text = 'tutti: this trainer has not been created'
    ready = fits .and. c_associated(self%handle)
    if (.not. ready) call tutti_finish(64_c_int, text, stat)
  end function

  ! As tutti_address.
  function float_address(array) result(at)
    real(c_float), intent(in), target, optional :: array(*)
    type(c_ptr) :: at
    at = c_null_ptr
    if (present(array)) at = c_loc(array)
  end function

  subroutine destroy_trainer(self)
    class(tutti_trainer), intent(inout) :: self
    if (c_associated(self%handle)) call tutti_trainer_destroy(self%handle)
  end subroutine

  ! Texts of C, and their addresses.
  subroutine c_texts(from, letters, at)
    character(len=*), intent(in) :: from(:)
    character(kind=c_char), allocatable, target, intent(out) :: letters(:, :)
    type(c_ptr), allocatable, intent(out) :: at(:)
    integer :: i, l
    allocate (letters(len(from) + 1, size(from)), at(size(from)))
    letters = c_null_char
    do i = 1, size(from)
      do l = 1, len_trim(from(i))
        letters(l, i) = from(i)(l:l)
      end do
      at(i) = c_loc(letters(1, i))
    end do
  end subroutine

  pure integer function trainer_members(self)
    class(tutti_trainer), intent(in) :: self
    trainer_members = int(tutti_trainer_members(self%handle))
  end function

  ! Outputs and parameters of a network.
  pure integer function outputs(self)
    class(tutti_trainer), intent(in) :: self
    outputs = int(tutti_trainer_outputs(self%handle))
  end function

  pure integer function parameters(self)
    class(tutti_trainer), intent(in) :: self
    parameters = int(tutti_trainer_parameters(self%handle))
  end function

  ! One optimizer step of every member: x(inputs, rows), y(targets, rows), weight(rows) in the loss;
  ! loss(members), the mean loss of each. Each member takes all rows, or those that index(rows of a
  ! step, members) names, or with own_rows its part: the first of equal parts is that of member 1.
  subroutine step(self, x, y, loss, weight, index, own_rows, stat)
    class(tutti_trainer), intent(inout) :: self
    real(c_float), intent(in), contiguous, target :: x(:, :), y(:, :)
    real(c_double), intent(out), contiguous, target, optional :: loss(:)
    real(c_float), intent(in), contiguous, target, optional :: weight(:)
    integer, intent(in), optional :: index(:, :)
    logical, intent(in), optional :: own_rows
    integer, intent(out), optional :: stat
    integer(c_int32_t), allocatable, target :: places(:)
    type(given_rows) :: batch
    integer :: rows
    logical :: fits
    call self%describe(shape(x), places, batch, rows, fits, index, own_rows)
    fits = fits .and. all(shape(y) == [self%columns(2), size(x, 2)])
    if (present(loss)) fits = fits .and. size(loss) == self%members()
    if (present(weight)) fits = fits .and. size(weight) == size(x, 2)
    batch%x = c_loc(x)
    batch%y = c_loc(y)
    batch%weight = float_address(weight)
    if (self%ready(fits, stat)) &
      call tutti_finish(tutti_trainer_step(self%handle, batch, tutti_address(loss)), '', stat)
  end subroutine

  ! A batch without x and y, whose index is in `places`; the rows of a step; and whether x and the
  ! index fit.
  subroutine describe(self, x, places, batch, rows, fits, index, own_rows)
    class(tutti_trainer), intent(in) :: self
    integer, intent(in) :: x(2)
    integer(c_int32_t), allocatable, target, intent(out) :: places(:)
    type(given_rows), intent(out) :: batch
    integer, intent(out) :: rows
    logical, intent(out) :: fits
    integer, intent(in), optional :: index(:, :)
    logical, intent(in), optional :: own_rows
    fits = x(1) == self%columns(1)
    rows = x(2)
    batch%size = c_sizeof(batch)
    batch%rows = x(2)
    if (present(own_rows)) batch%own_rows = merge(1, 0, own_rows)
    if (batch%own_rows /= 0) rows = x(2) / max(self%members(), 1)
    if (.not. present(index)) return
    rows = size(index, 1)
    fits = fits .and. size(index, 2) == self%members() .and. all(index >= 1 .and. index <= x(2))
    places = reshape(int(index - 1, c_int32_t), [size(index)])
    batch%count = rows
    batch%index = c_loc(places)
  end subroutine

  ! Outputs of the members as a training step computes them: x, index and own_rows as for step;
  ! output(outputs, rows of a step, members)
  subroutine forward(self, x, output, index, own_rows, stat)
    class(tutti_trainer), intent(inout), target :: self
    real(c_float), intent(in), contiguous :: x(:, :)
    real(c_float), intent(out), contiguous :: output(:, :, :)
    integer, intent(in), optional :: index(:, :)
    logical, intent(in), optional :: own_rows
    integer, intent(out), optional :: stat
    integer(c_int32_t), allocatable, target :: places(:)
    type(given_rows) :: batch
    integer :: rows
    logical :: fits
    call self%describe(shape(x), places, batch, rows, fits, index, own_rows)
    if (self%on_ranks) rows = size(output, 2) ! those of all ranks
    fits = fits .and. all(shape(output) == [self%outputs(), rows, self%members()])
    if (.not. self%ready(fits, stat)) return
    self%rows = rows
    self%x = reshape(x, [size(x)])
    batch%x = c_loc(self%x)
    call move_alloc(places, self%index) ! at the same address
    call tutti_finish(tutti_trainer_forward(self%handle, batch, output), '', stat)
  end subroutine

  ! Add up gradients for the next update: gradient, the derivatives of the loss by the outputs, has
  ! the shape of output; input_gradient(inputs, rows, members): those by x
  subroutine backward(self, gradient, input_gradient, stat)
    class(tutti_trainer), intent(inout) :: self
    real(c_float), intent(in), contiguous :: gradient(:, :, :)
    real(c_float), intent(out), contiguous, target, optional :: input_gradient(:, :, :)
    integer, intent(out), optional :: stat
    logical :: fits
    fits = all(shape(gradient) == [self%outputs(), self%rows, self%members()])
    if (present(input_gradient)) fits = fits .and. &
      all(shape(input_gradient) == [self%columns(1), self%rows, self%members()])
    if (self%ready(fits, stat)) &
      call tutti_finish(tutti_trainer_backward(self%handle, gradient, &
                                               float_address(input_gradient)), '', stat)
  end subroutine

  subroutine update(self, stat)
    class(tutti_trainer), intent(inout) :: self
    integer, intent(out), optional :: stat
    if (self%ready(.true., stat)) call tutti_finish(tutti_trainer_update(self%handle), '', stat)
  end subroutine

  ! Instead of update, for an optimizer of the program: gradient(parameters, members)
  subroutine take_gradient(self, gradient, stat)
    class(tutti_trainer), intent(inout) :: self
    real(c_float), intent(out), contiguous :: gradient(:, :)
    integer, intent(out), optional :: stat
    if (self%ready(all(shape(gradient) == [self%parameters(), self%members()]), stat)) &
      call tutti_finish(tutti_trainer_take_gradient(self%handle, gradient), '', stat)
  end subroutine

  ! Outputs as in predictions, without dropout: x(inputs, rows), output(outputs, rows, members)
  subroutine predict_outputs(self, x, output, stat)
    class(tutti_trainer), intent(inout) :: self
    real(c_float), intent(in), contiguous :: x(:, :)
    real(c_float), intent(out), contiguous :: output(:, :, :)
    integer, intent(out), optional :: stat
    logical :: fits
    fits = size(x, 1) == self%columns(1) .and. &
           all(shape(output) == [self%outputs(), size(x, 2), self%members()])
    if (self%ready(fits, stat)) &
      call tutti_finish(tutti_trainer_predict(self%handle, size(x, 2, c_int64_t), x, output), &
                        '', stat)
  end subroutine

  ! The members as they are now: a model, which the program closes, or a model file.
  subroutine make_model(self, model, stat)
    class(tutti_trainer), intent(inout) :: self
    type(tutti_model), intent(inout) :: model
    integer, intent(out), optional :: stat
    type(c_ptr) :: handle
    integer(c_int) :: code
    if (.not. self%ready(.true., stat)) return
    code = tutti_trainer_model(self%handle, handle)
    call model%take(handle)
    call tutti_finish(code, '', stat)
  end subroutine

  subroutine save_model(self, file, stat)
    class(tutti_trainer), intent(inout) :: self
    character(len=*), intent(in) :: file
    integer, intent(out), optional :: stat
    if (self%ready(.true., stat)) &
      call tutti_finish(tutti_trainer_save(self%handle, trim(file) // c_null_char), '', stat)
  end subroutine

  ! Parameters of a member, or of all (0).
  integer function own_floats(self, member)
    class(tutti_trainer), intent(in) :: self
    integer, intent(in) :: member
    own_floats = self%parameters() * merge(self%members(), 1, member == 0)
  end function

  ! weights(parameters) of member 1, 2, ..., or those of all members, one after the other (0): layer
  ! by layer weights, inputs fastest, then biases
  subroutine get_weights(self, member, weights, stat)
    class(tutti_trainer), intent(inout) :: self
    integer, intent(in) :: member
    real(c_float), intent(out), contiguous :: weights(:)
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = member - 1
    if (self%ready(size(weights) == own_floats(self, member), stat)) &
      call tutti_finish(tutti_trainer_get_weights(self%handle, number, weights), '', stat)
  end subroutine

  subroutine set_weights(self, member, weights, stat)
    class(tutti_trainer), intent(inout) :: self
    integer, intent(in) :: member
    real(c_float), intent(in), contiguous :: weights(:)
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = member - 1
    if (self%ready(size(weights) == own_floats(self, member), stat)) &
      call tutti_finish(tutti_trainer_set_weights(self%handle, number, weights), '', stat)
  end subroutine

  ! Before schedule and warm-up; NaN: there is no such member.
  real(c_double) function learning_rate(self, member)
    class(tutti_trainer), intent(in) :: self
    integer, intent(in) :: member
    learning_rate = tutti_trainer_learning_rate(self%handle, int(member - 1, c_int64_t))
  end function

  ! Of a member; of all without `member`.
  subroutine set_learning_rate(self, rate, member, stat)
    class(tutti_trainer), intent(inout) :: self
    real(c_double), intent(in) :: rate
    integer, intent(in), optional :: member
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = -1
    if (present(member)) number = member - 1
    if (self%ready(.not. present(member) .or. number >= 0, stat)) &
      call tutti_finish(tutti_trainer_set_learning_rate(self%handle, number, rate), '', stat)
  end subroutine

  ! Begin again with a member: other initial weights.
  subroutine reset(self, member, stat)
    class(tutti_trainer), intent(inout) :: self
    integer, intent(in) :: member
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: number
    number = member - 1
    if (self%ready(.true., stat)) &
      call tutti_finish(tutti_trainer_reset(self%handle, number), '', stat)
  end subroutine

  ! Everything that decides how training goes on, as bytes, and back.
  subroutine get_state(self, state, stat)
    class(tutti_trainer), intent(inout) :: self
    integer(c_int8_t), allocatable, intent(out) :: state(:)
    integer, intent(out), optional :: stat
    allocate (state(tutti_trainer_state_bytes(self%handle)))
    if (self%ready(.true., stat)) &
      call tutti_finish(tutti_trainer_get_state(self%handle, state), '', stat)
  end subroutine

  subroutine set_state(self, state, stat)
    class(tutti_trainer), intent(inout) :: self
    integer(c_int8_t), intent(in), contiguous :: state(:)
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: bytes
    bytes = size(state, kind=c_int64_t)
    if (self%ready(.true., stat)) &
      call tutti_finish(tutti_trainer_set_state(self%handle, state, bytes), '', stat)
  end subroutine
end module
