# Where the memory of training GPT-2 124M goes, from ../results/memory/memory.csv. Draws memory.svg, run in this folder:
#   gnuplot memory.gp
table = '../results/memory/memory.csv'
set terminal svg size 860,300 font 'sans,14' background '#ffffff'
set output 'memory.svg'
set datafile separator ','
presets = 'fp32 lpmm lpmm-compact lpmm-min lpmm-nano'
names = '"fp32 (usual)" lpmm lpmm-compact lpmm-min lpmm-nano'
row(preset) = sum [i = 1:words(presets)] (word(presets, i) eq preset ? words(presets) - i : 0)
shown(n) = strcol(1) eq 'GPT-2 124M' && strstrt(' ' . presets . ' ', ' ' . strcol(2) . ' ') > 0
# Columns 5 to 8 are the four packed roles; the rest is exempt tensors, activations, workspace, data and the program.
end(n) = (column(5) + (n > 1 ? column(6) : 0) + (n > 2 ? column(7) : 0) + (n > 3 ? column(8) : 0) \
          + (n > 4 ? column(9) + column(10) + column(11) + column(12) + column(13) + column(14) : 0)) / 1e9
start(n) = n == 1 ? 0 : end(n - 1)
bar(n) = shown(n) ? row(strcol(2)) : NaN
set border 1 lc rgb '#606060'
set xtics nomirror out scale 0.4
set grid xtics lc rgb '#dddddd' lw 0.7 lt 1
set xlabel 'memory while training GPT-2 with 124 million weights, GB' offset 0,0.3
set yrange [-0.6:4.6]
set xrange [0:2.3]
set ytics scale 0 ('' 0)
set for [i = 1:words(names)] ytics add (word(names, i) words(presets) - i)
set key inside right bottom vertical samplen 1.2 spacing 1.15
set tmargin 1
set lmargin 14
set rmargin 3
part(n) = word('weights "gradient sums" momentum variance "everything else"', n)
colour(n) = word('#1f6fb4 #e08214 #35978f #8856a7 #bdbdbd', n)
plot for [n = 1:5] table using (start(n)):(bar(n)):(start(n)):(end(n)):(bar(n) - 0.32):(bar(n) + 0.32) \
       with boxxyerror fs solid noborder lc rgb colour(n) title part(n), \
     table using (end(5) + 0.02):(bar(1)):(sprintf('%.2f GB', end(5))) with labels left notitle
