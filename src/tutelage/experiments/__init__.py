"""The paper's experiments: settings as data, tasks into rows, rows into tables, figures and a report."""
