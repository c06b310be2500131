"""`simulst report`: an experiment as one file to look at, in any browser and without a network.

content.py says what the page shows, as typed data; utterances.py chooses utterances and trace.py decodes them again, to
see what was decided; write.py puts the data, report.js and report.html into one file.
"""
