# gnuplot -c plot.gp DIRECTORY — the picture of a run: predicted against measured loads with error
# bars, and how the losses of the members fell. Reads the tables of `tutti report results.h5 -o
# DIRECTORY`; writes energy.svg and energy.png there.
directory = ARG1
predictions = directory . "/predictions.tsv"
history = directory . "/history.tsv"

# columns: predictions.tsv has 5 a target after the row; history.tsv has 7 an ensemble after the epoch
true(k) = 2 + 5 * k
mean(k) = 3 + 5 * k
std(k) = 4 + 5 * k
members(k) = 2 + 7 * k
train(k, q) = 3 + 7 * k + q
validation(k, q) = 6 + 7 * k + q

names = "heating cooling"
blue = "#2166ac"
orange = "#d6604d"

set datafile separator "\t"
set datafile missing "nan"
set border 3
set tics nomirror out
set grid linecolor "#e0e0e0" linetype 1 linewidth 0.5

do for [format in "svg png"] {
  if (format eq "svg") {
    set terminal svg size 1000,840 font "Helvetica,14" enhanced background "white"
  } else {
    set terminal pngcairo size 1000,840 font "Helvetica,11" enhanced background "white"
  }
  set output directory . "/energy." . format
  set multiplot layout 2,2 margins 0.08,0.98,0.08,0.95 spacing 0.10,0.13

  # Measured against predicted, test rows only; bars are 1.96 predicted standard deviations
  set key top left reverse Left samplen 2
  do for [k = 0:1] {
    set title word(names, k + 1) . " load, test rows"
    set xlabel "measured (kWh/m^2)"
    set ylabel "predicted (kWh/m^2)"
    set xrange [0:55]
    set yrange [0:55]
    plot x with lines linecolor "#808080" dashtype 2 notitle, \
         predictions using true(k):mean(k):(1.96 * column(std(k))) skip 1 with yerrorbars \
           pointtype 7 pointsize 0.5 linecolor rgb blue title "mean and 95 % interval"
  }

  # Median of the members and the band that holds 80 % of them; members that have stopped leave it
  set key top right noreverse Right
  set xrange [0:*]
  set yrange [*:*]
  do for [k = 0:1] {
    set title word(names, k + 1) . ", 50 networks"
    set xlabel "epoch"
    set ylabel "Gaussian negative log likelihood"
    plot history using 1:train(k, 0):train(k, 2) skip 1 with filledcurves \
           linecolor rgb blue fillstyle transparent solid 0.25 noborder notitle, \
         history using 1:validation(k, 0):validation(k, 2) skip 1 with filledcurves \
           linecolor rgb orange fillstyle transparent solid 0.25 noborder notitle, \
         history using 1:train(k, 1) skip 1 with lines linewidth 2 linecolor rgb blue \
           title "training: median, 10 % to 90 %", \
         history using 1:validation(k, 1) skip 1 with lines linewidth 2 linecolor rgb orange \
           title "validation"
  }
  unset multiplot
  unset output
}
