"""Facts in Chinese sentences.

terms .............. what can be asked for: titles, quotes, names, years, quantities, recurring words
reader ............. definitions, times, places, makers; gaps for the rest
"""
