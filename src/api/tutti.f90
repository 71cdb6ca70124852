! tutti.f90 -- tutti.h for Fortran 2008: predictions of trained ensembles and their derivatives.
!
! Compile this file with your program, because module files depend on the compiler, and link with
! libtutti (pkg-config --libs tutti). Arrays have the first index running fastest: the inputs of a
! row are together: x(inputs, rows), mean(columns, rows), mean_gradient(inputs, columns, rows). They
! are the arrays of C in memory, so nothing is copied or transposed, except for sections that are
! not contiguous.
!
! Every subroutine has the optional argument `stat`: 0 or an exit code of docs/troubleshooting.md, with
! the message in tutti_message(). Without it an error stops the program with the message.
! `threads` is optional too: 1 by default, 0 = all cores. A model may be used by several threads.
module tutti
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private
  public :: tutti_model, tutti_workspace, tutti_message
  public :: tutti_finish, tutti_address, tutti_count ! for tutti_training.f90

  type :: tutti_model
    private
    type(c_ptr) :: handle = c_null_ptr
    character(len=:), allocatable :: file ! the last one that was opened
  contains
    procedure :: open => open_model
    procedure :: close => close_model
    procedure :: take ! for tutti_training.f90
    procedure :: inputs, columns, members, member_columns, levels, level, has_classes
    procedure :: input_name, input_levels, input_level, level_value
    procedure :: column_label, target_units
    procedure, private :: predict_rows, predict_row
    generic :: predict => predict_rows, predict_row
    procedure :: quantiles, intervals, entropies, member_predictions
    procedure, private :: predict_all, call_library
  end type

  ! Memory for calls of predict, one at a time, so that they allocate none (tutti.h). Destroy it
  ! before the model is closed.
  type :: tutti_workspace
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => create_workspace
    procedure :: destroy => destroy_workspace
  end type

  ! struct tutti_prediction
  type, bind(c) :: wanted
    integer(c_size_t) :: size = 0 ! set by predict_all
    type(c_ptr) :: workspace = c_null_ptr
    type(c_ptr) :: mean = c_null_ptr, total = c_null_ptr, aleatoric = c_null_ptr
    type(c_ptr) :: epistemic = c_null_ptr
    type(c_ptr) :: mean_gradient = c_null_ptr, total_gradient = c_null_ptr
    type(c_ptr) :: aleatoric_gradient = c_null_ptr, epistemic_gradient = c_null_ptr
    integer(c_int64_t) :: quantiles = 0
    type(c_ptr) :: probability = c_null_ptr, quantile = c_null_ptr
    type(c_ptr) :: lower = c_null_ptr, upper = c_null_ptr
    type(c_ptr) :: entropy = c_null_ptr, mutual_information = c_null_ptr
    type(c_ptr) :: member_mean = c_null_ptr, member_variance = c_null_ptr
    type(c_ptr) :: extrapolation = c_null_ptr
  end type

  ! Message of an error that this module has found, '' = the error is one of the library.
  character(len=4200), save :: own_message = ''
  !$omp threadprivate(own_message)

  abstract interface
    pure integer(c_int64_t) function tutti_count(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function
    type(c_ptr) function text_of(model, i) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: i
    end function
  end interface
  procedure(tutti_count), bind(c) :: tutti_inputs, tutti_columns, tutti_members, &
    tutti_member_columns, tutti_levels
  procedure(text_of), bind(c) :: tutti_input_name, tutti_column_label, tutti_target_units

  interface
    integer(c_int) function tutti_open(file, model) bind(c)
      import
      character(kind=c_char), intent(in) :: file(*)
      type(c_ptr), intent(out) :: model
    end function
    integer(c_int) function tutti_open_member(file, member, model) bind(c)
      import
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int64_t), value :: member
      type(c_ptr), intent(out) :: model
    end function
    subroutine tutti_close(model) bind(c)
      import
      type(c_ptr), intent(inout) :: model
    end subroutine
    type(c_ptr) function tutti_error() bind(c)
      import
    end function
    integer(c_int) function tutti_has_classes(model) bind(c)
      import
      type(c_ptr), value :: model
    end function
    real(c_double) function tutti_level(model, i) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: i
    end function
    integer(c_int64_t) function tutti_input_levels(model, i) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: i
    end function
    type(c_ptr) function tutti_input_level(model, i, level) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: i, level
    end function
    real(c_double) function tutti_level_value(model, i, level) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: i
      character(kind=c_char), intent(in) :: level(*)
    end function
    integer(c_int) function tutti_workspace_create(model, threads, workspace) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int), value :: threads
      type(c_ptr), intent(out) :: workspace
    end function
    subroutine tutti_workspace_destroy(workspace) bind(c)
      import
      type(c_ptr), intent(inout) :: workspace
    end subroutine
    integer(c_int) function tutti_predict(model, rows, x, threads, out) bind(c)
      import
      type(c_ptr), value :: model
      integer(c_int64_t), value :: rows
      real(c_double), intent(in) :: x(*)
      integer(c_int), value :: threads
      type(wanted), intent(in) :: out
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! A text of C; "" for a null pointer.
  function fortran_text(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer(c_size_t) :: i, length
    length = 0
    if (c_associated(from)) length = strlen(from)
    allocate (character(len=length) :: text)
    if (length > 0) call c_f_pointer(from, letters, [length])
    do i = 1, length
      text(i:i) = letters(i)
    end do
  end function

  ! Message of the last error of this thread.
  function tutti_message() result(text)
    character(len=:), allocatable :: text
    text = trim(own_message)
    if (text == '') text = fortran_text(tutti_error())
  end function

  ! Why a call cannot reach the library; '' if it can.
  function problem(self, fits) result(text)
    class(tutti_model), intent(in) :: self
    logical, intent(in) :: fits
    character(len=:), allocatable :: text
    text = ''
    if (.not. fits) text = 'tutti: the shapes of the arrays do not fit the model'
    if (c_associated(self%handle)) return
    text = 'tutti: this model has not been opened'
    if (allocated(self%file)) text = self%file // ': this model is closed'
  end function

  ! Address of an array, null if it is absent.
  function tutti_address(array) result(at)
    real(c_double), intent(in), target, optional :: array(*)
    type(c_ptr) :: at
    at = c_null_ptr
    if (present(array)) at = c_loc(array)
  end function

  ! Hand on `code`, or stop.
  !   message  '' = that of the library
  subroutine tutti_finish(code, message, stat)
    integer(c_int), intent(in) :: code
    character(len=*), intent(in) :: message
    integer, intent(out), optional :: stat
    own_message = message
    if (present(stat)) then
      stat = code
    else if (code /= 0) then
      write (error_unit, '(a)') tutti_message()
      error stop 1
    end if
  end subroutine

  ! Read model.h5, for predictions of all members or of one (0, 1, ...: tutti_open_member). A model
  ! that is open is closed first.
  subroutine open_model(self, file, stat, member)
    class(tutti_model), intent(inout) :: self
    character(len=*), intent(in) :: file
    integer, intent(out), optional :: stat
    integer, intent(in), optional :: member
    integer(c_int) :: code
    call self%close()
    self%file = trim(file)
    if (present(member)) then
      code = tutti_open_member(self%file//c_null_char, int(member, c_int64_t), self%handle)
    else
      code = tutti_open(self%file//c_null_char, self%handle)
    end if
    call tutti_finish(code, '', stat)
  end subroutine

  subroutine close_model(self)
    class(tutti_model), intent(inout) :: self
    if (c_associated(self%handle)) call tutti_close(self%handle)
  end subroutine

  ! A model of the library, in place of the one that is open.
  subroutine take(self, handle)
    class(tutti_model), intent(inout) :: self
    type(c_ptr), intent(in) :: handle
    call self%close()
    if (allocated(self%file)) deallocate (self%file)
    self%handle = handle
  end subroutine

  pure integer function inputs(self)
    class(tutti_model), intent(in) :: self
    inputs = int(tutti_inputs(self%handle))
  end function

  pure integer function columns(self)
    class(tutti_model), intent(in) :: self
    columns = int(tutti_columns(self%handle))
  end function

  pure integer function members(self)
    class(tutti_model), intent(in) :: self
    members = int(tutti_members(self%handle))
  end function

  ! Columns of the largest ensemble.
  pure integer function member_columns(self)
    class(tutti_model), intent(in) :: self
    member_columns = int(tutti_member_columns(self%handle))
  end function

  ! Whether an ensemble predicts classes.
  logical function has_classes(self)
    class(tutti_model), intent(in) :: self
    has_classes = tutti_has_classes(self%handle) /= 0
  end function

  ! Number of conformal intervals, and the nominal coverage of number i = 1, 2, ...
  pure integer function levels(self)
    class(tutti_model), intent(in) :: self
    levels = int(tutti_levels(self%handle))
  end function

  real(c_double) function level(self, i)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    level = tutti_level(self%handle, int(i - 1, c_int64_t))
  end function

  ! Names of input and column i = 1, 2, ...; "" if there is none.
  function input_name(self, i) result(text)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    character(len=:), allocatable :: text
    text = fortran_text(tutti_input_name(self%handle, int(i - 1, c_int64_t)))
  end function

  ! Levels of input i, 0 for amounts; name of level 1, 2, ...; the number that stands for it in x.
  integer function input_levels(self, i)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    input_levels = int(tutti_input_levels(self%handle, int(i - 1, c_int64_t)))
  end function

  function input_level(self, i, level) result(text)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i, level
    character(len=:), allocatable :: text
    text = fortran_text(tutti_input_level(self%handle, int(i - 1, c_int64_t), &
                                          int(level - 1, c_int64_t)))
  end function

  real(c_double) function level_value(self, i, level)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    character(len=*), intent(in) :: level
    level_value = tutti_level_value(self%handle, int(i - 1, c_int64_t), trim(level) // c_null_char)
  end function

  function column_label(self, i) result(text)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    character(len=:), allocatable :: text
    text = fortran_text(tutti_column_label(self%handle, int(i - 1, c_int64_t)))
  end function

  function target_units(self, i) result(text)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: i
    character(len=:), allocatable :: text
    text = fortran_text(tutti_target_units(self%handle, int(i - 1, c_int64_t)))
  end function

  ! Whether x has `inputs` numbers in each row and an array has `each` for each of the rows.
  logical function fits_model(self, x, each, of)
    class(tutti_model), intent(in) :: self
    integer, intent(in) :: x(2), each
    integer, intent(in), optional :: of(2)
    fits_model = x(1) == self%inputs()
    if (present(of)) fits_model = fits_model .and. of(1) == each .and. of(2) == x(2)
  end function

  integer(c_int) function count_threads(threads)
    integer, intent(in), optional :: threads
    count_threads = 1
    if (present(threads)) count_threads = int(threads, c_int)
  end function

  subroutine create_workspace(self, model, threads, stat)
    class(tutti_workspace), intent(inout) :: self
    type(tutti_model), intent(in) :: model
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    call self%destroy()
    call tutti_finish(tutti_workspace_create(model%handle, count_threads(threads), self%handle), &
                problem(model, .true.), stat)
  end subroutine

  subroutine destroy_workspace(self)
    class(tutti_workspace), intent(inout) :: self
    if (c_associated(self%handle)) call tutti_workspace_destroy(self%handle)
  end subroutine

  ! x(inputs, rows); mean, total, aleatoric, epistemic(columns, rows); their derivatives by the
  ! inputs, mean_gradient and others(inputs, columns, rows)
  subroutine predict_rows(self, x, mean, total, aleatoric, epistemic, mean_gradient, &
                          total_gradient, aleatoric_gradient, epistemic_gradient, workspace, &
                          threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    real(c_double), intent(out), contiguous, target :: mean(:, :)
    real(c_double), intent(out), contiguous, target, optional :: total(:, :), aleatoric(:, :)
    real(c_double), intent(out), contiguous, target, optional :: epistemic(:, :)
    real(c_double), intent(out), contiguous, target, optional :: mean_gradient(:, :, :)
    real(c_double), intent(out), contiguous, target, optional :: total_gradient(:, :, :)
    real(c_double), intent(out), contiguous, target, optional :: aleatoric_gradient(:, :, :)
    real(c_double), intent(out), contiguous, target, optional :: epistemic_gradient(:, :, :)
    type(tutti_workspace), intent(in), optional :: workspace
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    type(wanted) :: out
    integer :: slopes(3)
    logical :: fits
    slopes = [self%inputs(), self%columns(), size(x, 2)]
    fits = fits_model(self, shape(x), self%columns(), shape(mean))
    if (present(total)) fits = fits .and. all(shape(total) == shape(mean))
    if (present(aleatoric)) fits = fits .and. all(shape(aleatoric) == shape(mean))
    if (present(epistemic)) fits = fits .and. all(shape(epistemic) == shape(mean))
    if (present(mean_gradient)) fits = fits .and. all(shape(mean_gradient) == slopes)
    if (present(total_gradient)) fits = fits .and. all(shape(total_gradient) == slopes)
    if (present(aleatoric_gradient)) fits = fits .and. all(shape(aleatoric_gradient) == slopes)
    if (present(epistemic_gradient)) fits = fits .and. all(shape(epistemic_gradient) == slopes)
    if (present(workspace)) out%workspace = workspace%handle
    out%mean = tutti_address(mean)
    out%total = tutti_address(total)
    out%aleatoric = tutti_address(aleatoric)
    out%epistemic = tutti_address(epistemic)
    out%mean_gradient = tutti_address(mean_gradient)
    out%total_gradient = tutti_address(total_gradient)
    out%aleatoric_gradient = tutti_address(aleatoric_gradient)
    out%epistemic_gradient = tutti_address(epistemic_gradient)
    call self%predict_all(x, out, fits, threads, stat)
  end subroutine

  ! One row: x(inputs); mean, total, aleatoric, epistemic(columns); mean_gradient and others(inputs,
  ! columns)
  subroutine predict_row(self, x, mean, total, aleatoric, epistemic, mean_gradient, &
                         total_gradient, aleatoric_gradient, epistemic_gradient, workspace, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:)
    real(c_double), intent(out), contiguous, target :: mean(:)
    real(c_double), intent(out), contiguous, target, optional :: total(:), aleatoric(:)
    real(c_double), intent(out), contiguous, target, optional :: epistemic(:)
    real(c_double), intent(out), contiguous, target, optional :: mean_gradient(:, :)
    real(c_double), intent(out), contiguous, target, optional :: total_gradient(:, :)
    real(c_double), intent(out), contiguous, target, optional :: aleatoric_gradient(:, :)
    real(c_double), intent(out), contiguous, target, optional :: epistemic_gradient(:, :)
    type(tutti_workspace), intent(in), optional :: workspace
    integer, intent(out), optional :: stat
    type(wanted) :: out
    integer :: slopes(2)
    logical :: fits
    slopes = [self%inputs(), self%columns()]
    fits = size(x) == self%inputs() .and. size(mean) == self%columns()
    if (present(total)) fits = fits .and. size(total) == size(mean)
    if (present(aleatoric)) fits = fits .and. size(aleatoric) == size(mean)
    if (present(epistemic)) fits = fits .and. size(epistemic) == size(mean)
    if (present(mean_gradient)) fits = fits .and. all(shape(mean_gradient) == slopes)
    if (present(total_gradient)) fits = fits .and. all(shape(total_gradient) == slopes)
    if (present(aleatoric_gradient)) fits = fits .and. all(shape(aleatoric_gradient) == slopes)
    if (present(epistemic_gradient)) fits = fits .and. all(shape(epistemic_gradient) == slopes)
    if (present(workspace)) out%workspace = workspace%handle
    out%mean = tutti_address(mean)
    out%total = tutti_address(total)
    out%aleatoric = tutti_address(aleatoric)
    out%epistemic = tutti_address(epistemic)
    out%mean_gradient = tutti_address(mean_gradient)
    out%total_gradient = tutti_address(total_gradient)
    out%aleatoric_gradient = tutti_address(aleatoric_gradient)
    out%epistemic_gradient = tutti_address(epistemic_gradient)
    call self%call_library(1_c_int64_t, x, out, fits, 1_c_int, stat)
  end subroutine

  ! What `out` points to, if the shapes of the arrays fit.
  subroutine predict_all(self, x, out, fits, threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    type(wanted), intent(in) :: out
    logical, intent(in) :: fits
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    call self%call_library(size(x, 2, c_int64_t), x, out, fits, count_threads(threads), stat)
  end subroutine

  subroutine call_library(self, rows, x, out, fits, threads, stat)
    class(tutti_model), intent(in) :: self
    integer(c_int64_t), intent(in) :: rows
    real(c_double), intent(in) :: x(*)
    type(wanted), intent(in) :: out
    logical, intent(in) :: fits
    integer(c_int), intent(in) :: threads
    integer, intent(out), optional :: stat
    integer(c_int) :: code
    type(wanted) :: sized
    sized = out
    sized%size = c_sizeof(sized)
    code = 64
    if (fits) code = tutti_predict(self%handle, rows, x, threads, sized)
    call tutti_finish(code, problem(self, fits), stat)
  end subroutine

  ! Quantiles of the mixture: x(inputs, rows), probability(q), quantile(columns, rows, q)
  subroutine quantiles(self, x, probability, quantile, threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    real(c_double), intent(in), contiguous, target :: probability(:)
    real(c_double), intent(out), contiguous, target :: quantile(:, :, :)
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    type(wanted) :: out
    out%quantiles = size(probability, kind=c_int64_t)
    out%probability = c_loc(probability)
    out%quantile = c_loc(quantile)
    call self%predict_all(x, out, fits_model(self, shape(x), 0) .and. &
      all(shape(quantile) == [self%columns(), size(x, 2), size(probability)]), threads, stat)
  end subroutine

  ! Conformal intervals: x(inputs, rows); lower, upper(columns, rows, levels)
  subroutine intervals(self, x, lower, upper, threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    real(c_double), intent(out), contiguous, target :: lower(:, :, :), upper(:, :, :)
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    type(wanted) :: out
    out%lower = c_loc(lower)
    out%upper = c_loc(upper)
    call self%predict_all(x, out, fits_model(self, shape(x), 0) .and. &
      all(shape(upper) == shape(lower)) .and. &
      all(shape(lower) == [self%columns(), size(x, 2), self%levels()]), threads, stat)
  end subroutine

  ! Uncertainty of classes in nats: entropy of the mean probabilities, and the part of it that comes
  ! from the disagreement of the members; NaN in columns that are no classes. x(inputs, rows);
  ! entropy, mutual_information(columns, rows)
  subroutine entropies(self, x, entropy, mutual_information, threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    real(c_double), intent(out), contiguous, target :: entropy(:, :), mutual_information(:, :)
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    type(wanted) :: out
    out%entropy = c_loc(entropy)
    out%mutual_information = c_loc(mutual_information)
    call self%predict_all(x, out, fits_model(self, shape(x), self%columns(), shape(entropy)) &
      .and. all(shape(mutual_information) == shape(entropy)), threads, stat)
  end subroutine

  ! Mean and variance of each member, NaN beyond the columns of its ensemble: x(inputs, rows); mean,
  ! variance(member_columns, rows, members)
  subroutine member_predictions(self, x, mean, variance, threads, stat)
    class(tutti_model), intent(in) :: self
    real(c_double), intent(in), contiguous :: x(:, :)
    real(c_double), intent(out), contiguous, target :: mean(:, :, :), variance(:, :, :)
    integer, intent(in), optional :: threads
    integer, intent(out), optional :: stat
    type(wanted) :: out
    out%member_mean = c_loc(mean)
    out%member_variance = c_loc(variance)
    call self%predict_all(x, out, fits_model(self, shape(x), 0) .and. &
      all(shape(variance) == shape(mean)) .and. &
      all(shape(mean) == [self%member_columns(), size(x, 2), self%members()]), threads, stat)
  end subroutine
end module
