"""The plots of all stories."""
import plots_a
import plots_b

PLOTS = plots_a.PLOTS + plots_b.PLOTS
